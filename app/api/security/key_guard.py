"""API keys of requests: all but a few paths require one as soon as the server has any.

The key is identified before routing, so that no spelling of a path can avoid the check. The scope
that a route needs is checked after routing, in ``require_scope``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.audit import Audit
from app.api.problems import problem_response
from app.api.security.scopes import is_open, needed_scopes
from app.api.security.session_cookie import session_key
from app.domain.api_key import ApiKey, KeyScope
from app.errors.refusals import Forbidden, Unauthorized
from app.errors.tree import ServiceError, TooLarge
from app.services.access.key_ring import KeyRing
from app.services.access.sessions import Sessions

__all__ = ["KeyGuard", "identify", "key_texts", "require_scope", "scope_fault"]

_REFUSALS = frozenset({401, 403, 429})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_PLAIN_PATHS = frozenset({"/openapi.json"})
"""Not one of our routes, so that its scope is only checked here."""
_ENDED = "the API key was revoked, or expired, while the body was being sent"


def key_texts(fields: Iterable[tuple[bytes, bytes]]) -> list[str]:
    """Return all keys in the header fields."""
    found: list[str] = []
    authorizations = 0
    for name, value in fields:
        if name == b"x-api-key":
            found.append(value.decode("latin-1"))
        elif name == b"authorization":
            authorizations += 1
            scheme, _, text = value.decode("latin-1").partition(" ")
            # Other schemes, such as Basic for a proxy, are none of ours.
            if scheme.lower() == "bearer" or authorizations > 1:
                found.append(text.strip(" "))
    # Several Authorization fields are not allowed, and proxies might check another than we do: one
    # text more makes sure that they are refused.
    return found if authorizations < 2 else [*found, ""]


def identify(scope: Scope, ring: KeyRing, sessions: Sessions) -> ApiKey:
    """Return the key that a request sends, or, if it sends none, that of its session.

    Raises:
        Unauthorized: it has neither, or it is not valid.
    """
    texts = key_texts(scope["headers"])
    found = None if texts else session_key(scope, sessions)
    return ring.identify(texts) if found is None else found


def scope_fault(key: ApiKey, verb: str, path: str) -> Forbidden | None:
    """Return why a key may not use a route, or None if it may."""
    needed = needed_scopes(verb, path)
    if not needed or key.allows(needed):
        return None
    return Forbidden(f"{verb} {path}", needed)


async def require_scope(request: Request) -> None:
    """Refuse a key that lacks the scope of the route, or ends before the request does."""
    key = request.scope["state"].get("api_key")
    if key is None:
        return
    route = request.scope["route"]
    fault = scope_fault(key, request.method, route.path)
    if fault:
        raise fault
    if request.method not in _SAFE and "requestBody" not in (route.openapi_extra or {}):
        await _await_end(request)


async def _await_end(request: Request) -> None:
    """Wait for the end of a body that the route does not read: until then the key may end."""
    limit: int = request.app.state.settings.max_body_bytes
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLarge("body", got=None, limit=limit, setting="MODSERVE_MAX_BODY_BYTES")


class KeyGuard:
    """Refuses requests without a valid key, and those beyond a key's limits."""

    def __init__(self, app: ASGIApp, ring: KeyRing, sessions: Sessions, audit: Audit) -> None:
        self.app = app
        self._ring = ring
        self._sessions = sessions
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        ring = self._ring
        if scope["type"] != "http" or not ring.is_in_force or is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        key: ApiKey | None = None
        try:
            key = identify(scope, ring, self._sessions)
            rate_limiter = ring.rate_limiter(key)
            if rate_limiter is not None:
                rate_limiter.take()
        except ServiceError as error:
            response = problem_response(Request(scope), error)
            self._audit.refused(scope, key, response.status_code, str(error))
            await response(scope, receive, send)
            return
        try:
            await self._pass_on(key, scope, receive, send)
        finally:
            if rate_limiter is not None:
                rate_limiter.release()

    async def _pass_on(self, key: ApiKey, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(self._ring, key, receive, send)
        scope.setdefault("state", {})["api_key"] = key
        is_plain = scope["path"] in _PLAIN_PATHS
        fault = scope_fault(key, scope["method"], scope["path"]) if is_plain else None
        try:
            if fault is None:
                await self.app(scope, exchange.receive, exchange.send)
            else:
                await problem_response(Request(scope), fault)(scope, receive, exchange.send)
        finally:
            self._note(scope, key, exchange.status)

    def _note(self, scope: Scope, key: ApiKey, status: int) -> None:
        if status in _REFUSALS:
            self._audit.refused(scope, key, status, _reason(status))
        elif scope["method"] not in _SAFE and _is_change(scope):
            self._audit.changed(scope, key, status)


class _Exchange:
    """Receives and sends for a request as long as its key is valid."""

    def __init__(self, ring: KeyRing, key: ApiKey, receive: Receive, send: Send) -> None:
        self.status = 0
        self._ring = ring
        self._key = key
        self._receive = receive
        self._send = send
        self._in_body = True
        self._is_stream = False
        self._is_over = False

    async def receive(self) -> Message:
        """Return the next message; a body is refused if its key is no longer valid when the last
        part of it arrives.
        """
        if not self._in_body:
            return await self._receive_or_end()
        message = await self._receive()
        if self._in_body and message["type"] == "http.request":
            self._in_body = message.get("more_body", False)
            if not self._ring.is_valid(self._key):
                raise Unauthorized(_ENDED)
        return message

    async def _receive_or_end(self) -> Message:
        """Wait for the client to hang up; a stream of events ends with its key, even if it is idle.
        The sender of the stream awaits this meanwhile.
        """
        coming = asyncio.ensure_future(self._receive())
        try:
            while not coming.done():
                changed = self._ring.next_change()
                if self._is_stream and not self._ring.is_valid(self._key):
                    await self._end()
                    return {"type": "http.disconnect"}
                either: list[asyncio.Future[Any]] = [coming, changed]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return coming.result()
        finally:
            coming.cancel()

    async def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send(self, message: Message) -> None:
        """Send; a stream of events ends with its key."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            fields = message.get("headers", ())
            kinds = [value for name, value in fields if name.lower() == b"content-type"]
            self._is_stream = any(kind.startswith(b"text/event-stream") for kind in kinds)
        elif self._is_stream and (self._is_over or not self._ring.is_valid(self._key)):
            await self._end()
            raise OSError(_ENDED)  # as if the client had closed the connection
        await self._send(message)


def _is_change(scope: Scope) -> bool:
    route: Any = scope.get("route")
    needed = needed_scopes(scope["method"], getattr(route, "path", ""))
    return KeyScope.TRAIN in needed or KeyScope.ADMIN in needed


def _reason(status: int) -> str:
    return "scope" if status == 403 else "key"
