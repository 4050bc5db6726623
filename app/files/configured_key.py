"""An API key that the operator gives a server through its environment or in a file."""

from __future__ import annotations

import re
import time
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from app.domain.api_key import ApiKey, KeyScope, digest_of, key_id_of
from app.errors.tree import StartError

__all__ = ["GIVEN_NAME", "given_key"]

GIVEN_NAME = "given"
_MOST_BYTES = 4096
_SPACE = re.compile(r"\s")
_FORM = "a key as 'modserve keys generate' prints one"


def given_key(text: str | None, path: Path | None) -> ApiKey | None:
    """Return the given key, which has the admin scope; None if there is none.

    Args:
        text: the key itself.
        path: a file with the key, such as a mounted secret; surrounding white space is ignored.

    Raises:
        StartError: it is not a key, cannot be read, or both are given.
    """
    if text is not None and path is not None:
        raise StartError("MODSERVE_API_KEY and MODSERVE_API_KEY_FILE are both set: unset one")
    if path is not None:
        return _key("MODSERVE_API_KEY_FILE", _read(path), f"{path} has")
    return None if text is None else _key("MODSERVE_API_KEY", text.strip(), "got")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise StartError(
            f"MODSERVE_API_KEY_FILE: {path} cannot be read: {error.strerror}; it must exist "
            "and be readable by the user that the server runs as"
        ) from None
    # What Windows writes as a text file.
    coding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    return content.decode(coding, errors="replace").strip()


def _key(variable: str, text: str, got: str) -> ApiKey:
    id_ = key_id_of(text)
    if id_ is None:
        # The text may be some other secret, so it is not shown.
        what = f"{len(text)} characters" + (" with white space" if _SPACE.search(text) else "")
        raise StartError(f"{variable}: {got} {what}, expected {_FORM}")
    return ApiKey(
        id=id_,
        name=GIVEN_NAME,
        scopes=(KeyScope.ADMIN,),
        sha256=digest_of(text),
        created_at=time.time(),
    )
