"""GETs of what the client already has: ``If-None-Match`` is answered with 304, in plain ASGI."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem_response
from app.errors import Invalid
from app.services.preconditions import etags_of, expect_etag

__all__ = ["IF_MATCH", "ConditionalGet", "is_known"]

_READING = ("GET", "HEAD")
_OF_THE_BODY = ("content-length", "content-type", "content-disposition", "accept-ranges")


async def _expect_etag(
    if_match: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="Refuse with 412, which names the current ETag, unless it is one of these.",
        ),
    ] = None,
) -> None:
    expect_etag(if_match)


IF_MATCH = [Depends(_expect_etag)]
"""Dependencies of a route that changes something and honors ``If-Match``."""


def is_known(scope: Scope, etag: str | None) -> bool:
    """Return whether a request says that its client has this representation.

    Raises:
        Invalid: its ``If-None-Match`` is not a list of ETags.
    """
    field = Headers(scope=scope).get("if-none-match")
    if field is None or etag is None or scope["method"] not in _READING:
        return False
    known = etags_of(field, "If-None-Match")
    return known == ("*",) or etag.removeprefix("W/") in {one.removeprefix("W/") for one in known}


class ConditionalGet:
    """Answers 304 if the client already has the representation with the answer's ETag."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not _asks(scope):
            await self.app(scope, receive, send)
            return
        try:
            is_known(scope, "")  # an invalid field is refused before anything is done
        except Invalid as error:
            await problem_response(Request(scope), error)(scope, receive, send)
            return
        is_over = False

        async def answer(message: Message) -> None:
            nonlocal is_over
            if is_over:
                return
            if message["type"] == "http.response.start" and message["status"] == 200:
                headers = MutableHeaders(raw=list(message["headers"]))
                is_over = is_known(scope, headers.get("etag"))
            if not is_over:
                await send(message)
                return
            for name in _OF_THE_BODY:
                del headers[name]
            await send({**message, "status": 304, "headers": headers.raw})
            await send({"type": "http.response.body"})

        await self.app(scope, receive, answer)


def _asks(scope: Scope) -> bool:
    return scope["method"] in _READING and any(
        name == b"if-none-match" for name, _ in scope["headers"]
    )
