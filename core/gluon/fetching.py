"""Files fetched from an address that a script gives (``mx.gluon.utils.download``)."""

from __future__ import annotations

import hashlib
import logging
import shutil
import ssl
import urllib.request
import warnings
from pathlib import Path

from ..errors import UsageError

__all__ = ["check_sha1", "download", "fetch"]

_SECONDS = 60


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Return the path of a file, downloaded unless it exists.

    Args:
        url: the address.
        path: the file, or the folder for a file named by the last part of the address; None is the
            current folder.
        overwrite: download it even if it exists.
        sha1_hash: its SHA-1 in hexadecimal digits; an existing file with another one is replaced.
        retries: number of further attempts after a failure.
        verify_ssl: refuse a server whose certificate is not valid.

    Raises:
        UsageError: ``retries`` is below 0, or neither ``path`` nor ``url`` names the file.
        OSError: every attempt failed, or the downloaded file has another SHA-1.
    """
    name = url.split("/")[-1]
    target = Path(path or "").expanduser()
    if path is None or target.is_dir():
        if not name:
            raise UsageError(f"{url} ends with no name of a file; give the file as path")
        target = target / name
    has_hash = sha1_hash is None or (target.exists() and check_sha1(str(target), sha1_hash))
    if target.exists() and has_hash and not overwrite:
        return str(target)
    if not verify_ssl:
        warnings.warn(f"verify_ssl=False: the certificate of {url} is not verified", stacklevel=2)
    fetch(url, target, retries, verify_ssl)
    if sha1_hash is not None and not check_sha1(str(target), sha1_hash):
        raise OSError(f"{target}, downloaded from {url}, has another SHA-1 than {sha1_hash}")
    return str(target)


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Return whether a file has this SHA-1, given in hexadecimal digits."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash


def fetch(url: str, path: Path, retries: int, verify_ssl: bool = True) -> None:
    """Write what is at an address to a file, whose folder is created if necessary.

    Raises:
        UsageError: ``retries`` is below 0. OSError: every attempt failed.
    """
    if retries < 0:
        raise UsageError(f"retries is {retries}; expected 0 or more")
    context = None if verify_ssl else ssl._create_unverified_context()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.part")
    for left in range(retries, -1, -1):
        try:
            with (
                urllib.request.urlopen(url, timeout=_SECONDS, context=context) as source,
                partial.open("wb") as out,
            ):
                shutil.copyfileobj(source, out)
            break
        except OSError as error:
            partial.unlink(missing_ok=True)
            if not left:
                raise
            logging.info("%s: %s; %d attempts are left", url, error, left)
    partial.replace(path)
