"""API keys of requests that are answered without the router.

When a head is first seen, its key is identified and the scope checked. For every further request
with the same head only the key's continued existence is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.types import Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.api.audit import Audit
from app.api.exchanges import Begin, BeginFor, Body, Client, LongBody, Pending, Respond
from app.api.security.key_guard import key_texts, scope_fault
from app.errors.answers import error_answer
from app.errors.refusals import Unauthorized
from app.errors.tree import ServiceError
from app.services.access.key_ring import KeyRing
from app.services.access.rate_limiter import RateLimiter
from app.settings import Settings

__all__ = ["FastPathKeys"]


class FastPathKeys:
    """Admits request heads by their keys."""

    def __init__(self, ring: KeyRing, audit: Audit, settings: Settings) -> None:
        self._ring = ring
        self._audit = audit
        self._root_path = settings.root_path
        # What runs in front of the router: it finds the client behind a trusted proxy.
        trusted = list(settings.trusted_proxies)
        self._behind_proxies = ProxyHeadersMiddleware(self._note_refusal, trusted)
        self._noting: set[asyncio.Task[None]] = set()  # asyncio itself does not keep tasks alive

    def admit(self, scope: Mapping[str, Any], route: str, begin: Begin) -> BeginFor | None:
        """Return how the requests of a head are answered; None if the router must refuse them."""
        ring = self._ring
        if not ring.is_in_force:
            return lambda body, request_id, respond, _: begin(body, request_id, respond)
        try:
            key = ring.identify(key_texts(scope["headers"]))
        except Unauthorized:
            return None
        if scope_fault(key, scope["method"], route) is not None:
            return None
        rate_limiter = ring.rate_limiter(key)

        def begin_if_valid(
            body: bytes, request_id: str, respond: Respond, client: Client
        ) -> Pending | None:
            try:
                if not ring.is_valid(key):
                    raise Unauthorized("the API key was revoked, or has expired")
                if rate_limiter is None:
                    return begin(body, request_id, respond)
                return _Limited(rate_limiter, respond).begin(begin, body, request_id)
            except ServiceError as error:
                answer = error_answer(error, request_id, scope["path"], self._root_path)
                state = {"request_id": request_id, "refusal": (key, answer.status, str(error))}
                self._note({**scope, "client": client, "state": state})
                respond(answer.status, answer.lines, answer.body)
                return None

        return begin_if_valid

    def _note(self, scope: Scope) -> None:
        noting: Any = self._behind_proxies(scope, _nothing, _nothing)  # type: ignore[arg-type]
        task = asyncio.ensure_future(noting)
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _note_refusal(self, scope: Any, receive: object, send: object) -> None:
        self._audit.refused(scope, *scope["state"]["refusal"])


async def _nothing(*_: object) -> Any:
    pass


class _Limited:
    """A request that counts as under way until it is answered or given up."""

    __slots__ = ("_pending", "_rate_limiter", "_respond")

    def __init__(self, rate_limiter: RateLimiter, respond: Respond) -> None:
        rate_limiter.take()
        self._rate_limiter: RateLimiter | None = rate_limiter
        self._respond = respond
        self._pending: Pending | None = None

    def begin(self, begin: Begin, body: bytes, request_id: str) -> Pending | None:
        """Begin to answer."""
        try:
            self._pending = begin(body, request_id, self._answer)
        except BaseException:
            self._end()
            raise
        return None if self._pending is None else self

    def withdraw(self) -> None:
        """Give the answer up."""
        self._end()
        if self._pending is not None:
            self._pending.withdraw()

    def _answer(self, status: int, lines: bytes, body: Body) -> None:
        if isinstance(body, LongBody):  # which is under way until it was sent
            release = body.release

            def end() -> None:
                self._end()
                release()

            body = replace(body, release=end)
        else:
            self._end()
        self._respond(status, lines, body)

    def _end(self) -> None:
        rate_limiter, self._rate_limiter = self._rate_limiter, None
        if rate_limiter is not None:
            rate_limiter.release()
