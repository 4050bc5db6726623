"""Conditions of requests (RFC 9110, 13): what the client already has is not sent again, and what it
does not expect is refused.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Annotated

from fastapi import Depends, Header
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem_response
from app.errors.tree import Invalid, PreconditionFailed
from app.services.access.preconditions import etags_of, expect_etag, matches, matches_weakly

__all__ = ["IF_MATCH", "ConditionalGet", "is_known"]

_READING = ("GET", "HEAD")
_CONDITIONS = (b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since")
_OF_THE_BODY = ("content-length", "content-type", "content-disposition", "accept-ranges")


async def _expect_etag(
    if_match: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="Refuse with 412, which names the current ETag, unless it is one of these.",
        ),
    ] = None,
    if_none_match: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="Refuse with 412 if the current ETag is one of these; `*` if there is any.",
        ),
    ] = None,
) -> None:
    expect_etag(if_match, if_none_match)


IF_MATCH = [Depends(_expect_etag)]
"""Dependencies of a route that changes something and honors ``If-Match`` and ``If-None-Match``."""


def is_known(scope: Scope, etag: str | None, modified: str | None = None) -> bool:
    """Return whether a request says that its client has this representation.

    Args:
        etag, modified: the fields ``ETag`` and ``Last-Modified`` of the answer.

    Raises:
        Invalid: ``If-Match`` or ``If-None-Match`` is not a list of ETags.
        PreconditionFailed: the client expects another representation.
    """
    fields = Headers(scope=scope)
    if scope["method"] not in _READING:
        return False
    _check_expected(fields, scope["path"], etag, modified)
    known = fields.get("if-none-match")
    if known is not None:  # the date then only serves those who know no ETags
        return matches_weakly(etags_of(known, "If-None-Match"), etag)
    return _is_not_after(modified, fields.get("if-modified-since"))


def _check_expected(fields: Headers, path: str, etag: str | None, modified: str | None) -> None:
    expected, date = fields.get("if-match"), fields.get("if-unmodified-since")
    hint = "ask without the condition"
    if expected is not None:
        etags = etags_of(expected, "If-Match")
        if not matches(etags, etag) and etags != ("*",):
            raise PreconditionFailed(f"the ETag of {path}", got=expected, present=etag, hint=hint)
    elif _is_not_after(date, modified) and not _is_not_after(modified, date):
        what = f"the date of {path}"
        raise PreconditionFailed(what, got=f"{date} or before", present=modified, hint=hint)


def _is_not_after(one: str | None, other: str | None) -> bool:
    """Compare two dates; False if there is none, or it cannot be read: it is then ignored."""
    try:
        return bool(one and other) and (
            parsedate_to_datetime(one or "") <= parsedate_to_datetime(other or "")
        )
    except (ValueError, TypeError):
        return False


class ConditionalGet:
    """Answers 304 if the client already has the representation, 412 if it expects another."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not _asks(scope):
            await self.app(scope, receive, send)
            return
        try:
            _check_fields(scope)  # before anything is done
        except Invalid as error:
            await problem_response(Request(scope), error)(scope, receive, send)
            return
        is_over = False

        async def answer(message: Message) -> None:
            nonlocal is_over
            if is_over:
                return
            if message["type"] == "http.response.start" and message["status"] in (200, 206):
                headers = MutableHeaders(raw=list(message["headers"]))
                try:
                    is_over = is_known(scope, headers.get("etag"), headers.get("last-modified"))
                except PreconditionFailed as error:
                    is_over = True
                    await problem_response(Request(scope), error)(scope, receive, send)
                    return
            if not is_over:
                await send(message)
                return
            for name in _OF_THE_BODY:
                del headers[name]
            await send({**message, "status": 304, "headers": headers.raw})
            await send({"type": "http.response.body"})

        await self.app(scope, receive, answer)


def _check_fields(scope: Scope) -> None:
    fields = Headers(scope=scope)
    for name in ("If-Match", "If-None-Match"):
        field = fields.get(name)
        if field is not None:
            etags_of(field, name)


def _asks(scope: Scope) -> bool:
    return scope["method"] in _READING and any(name in _CONDITIONS for name, _ in scope["headers"])
