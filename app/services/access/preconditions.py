"""``If-Match`` and ``If-None-Match`` of requests that change something (RFC 9110).

The precondition belongs to the request, not to a single call: the code that has locked the resource
checks here that it is still in the state that the client saw.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import NamedTuple

from app.errors.tree import Invalid, PreconditionFailed

__all__ = ["check_etag", "etags_of", "expect_etag", "is_expected", "matches", "matches_weakly"]

_ETAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_ANY = "*"


class _Expected(NamedTuple):
    """The ETags of ``If-Match`` and ``If-None-Match``; empty if the request has no such field."""

    match: tuple[str, ...] = ()
    none_match: tuple[str, ...] = ()


_NOTHING = _Expected()
_expected: ContextVar[_Expected] = ContextVar("expected", default=_NOTHING)


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


def matches(etags: tuple[str, ...], present: str | None) -> bool:
    """Return whether a resource has one of the ETags of ``If-Match``; weak ones never match."""
    return present is not None and (etags == (_ANY,) or present in etags)


def matches_weakly(etags: tuple[str, ...], present: str | None) -> bool:
    """Return whether a resource has one of the ETags of ``If-None-Match``."""
    if present is None or etags == (_ANY,):
        return present is not None
    return present.removeprefix("W/") in {one.removeprefix("W/") for one in etags}


def expect_etag(match: str | None, none_match: str | None) -> None:
    """Refuse the change that this request makes unless the ETag is as these fields say."""
    _expected.set(
        _Expected(
            () if match is None else etags_of(match, "If-Match"),
            () if none_match is None else etags_of(none_match, "If-None-Match"),
        )
    )


def is_expected() -> bool:
    """Return whether the request expects an ETag that has not been checked yet."""
    return any(_expected.get())


def check_etag(what: str, present: str | None, *, is_new: bool = False) -> None:
    """Check the ETag of a resource that is about to change, once per request.

    Args:
        what: the resource, for the message.
        present: its ETag; None if it does not exist yet.
        is_new: True if the request adds a part to it that it does not have.

    Raises:
        PreconditionFailed: the client has seen another ETag, or expects that there is none.
    """
    match, none_match = _expected.get()
    _expected.set(_NOTHING)  # the request's own further changes are not conflicts
    if match and not matches(match, present):
        got, hint = ", ".join(match), "read it again and repeat the change"
    elif none_match and not is_new and matches_weakly(none_match, present):
        got, hint = f"If-None-Match: {', '.join(none_match)}", "nothing was changed"
    else:
        return
    raise PreconditionFailed(f"the ETag of {what}", got=got, present=present, hint=hint)
