"""What a request wants to be so still when its change is made: ``If-Match``, as RFC 9110 has it.

It belongs to the request, not to any one call: whoever has what is to be changed to himself asks
here whether it is what the client has seen.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

from app.errors import Invalid, PreconditionFailed

__all__ = ["check_etag", "etags_of", "expect_etag", "is_expected"]

_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_ANY = "*"
_expected: ContextVar[tuple[str, ...]] = ContextVar("expected", default=())


def etags_of(field: str, name: str) -> tuple[str, ...]:
    """Return the ETags of a header field; ``*`` stands for any.

    Raises:
        Invalid: it is not a list of ETags.
    """
    if field.strip() == _ANY:
        return (_ANY,)
    found = tuple(part.strip() for part in field.split(","))
    for one in found:
        if not _ETAG.fullmatch(one):
            raise Invalid(name, field, 'ETags with their quotes, as "12-3", or *')
    return found


def expect_etag(field: str | None) -> None:
    """Refuse the change that this request makes unless the ETag matches ``If-Match``."""
    _expected.set(() if field is None else etags_of(field, "If-Match"))


def is_expected() -> bool:
    """Return whether the request expects an ETag that nobody has compared yet."""
    return bool(_expected.get())


def check_etag(what: str, present: str | None) -> None:
    """Compare what is about to be changed with what the request expects, once.

    Args:
        what: is to be changed, for the message.
        present: its ETag; None if there is none yet.

    Raises:
        PreconditionFailed: the client has seen another one.
    """
    expected = _expected.get()
    if not expected:
        return
    _expected.set(())  # what this request itself changes from here on is not a conflict
    if present is not None and (expected == (_ANY,) or present in expected):
        return
    raise PreconditionFailed(
        f"the ETag of {what}",
        got=", ".join(expected),
        present=present,
        hint="read it again and repeat the change",
    )
