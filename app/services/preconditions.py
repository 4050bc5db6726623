"""``If-Match`` preconditions of requests (RFC 9110).

The precondition belongs to the request, not to a single call: the code that has locked the resource
checks here that it is still in the state that the client saw.
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
    """Return whether the request expects an ETag that has not been checked yet."""
    return bool(_expected.get())


def check_etag(what: str, present: str | None) -> None:
    """Check the ETag of a resource that is about to change, once per request.

    Args:
        what: the resource, for the message.
        present: its ETag; None if it does not exist yet.

    Raises:
        PreconditionFailed: the client has seen another ETag.
    """
    expected = _expected.get()
    if not expected:
        return
    _expected.set(())  # the request's own further changes are not conflicts
    if present is not None and (expected == (_ANY,) or present in expected):
        return
    raise PreconditionFailed(
        f"the ETag of {what}",
        got=", ".join(expected),
        present=present,
        hint="read it again and repeat the change",
    )
