"""Processing of every request before and after its route, in plain ASGI."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from functools import cache

import structlog
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import problem_response
from app.api.security.cross_origin import CrossOrigin
from app.api.traces import Trace
from app.errors.tree import Unavailable

__all__ = ["RequestContext", "count_answer", "log_answer", "new_request_id"]

_log = structlog.get_logger("modserve.access")
_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLIENT_LEFT = 499
"""Status counted if the client hung up during its request, so that nobody is answered."""

REQUESTS = Counter(
    "modserve_http_requests_total", "Requests answered", ["method", "route", "status"]
)
SECONDS = Histogram(
    "modserve_http_request_seconds",
    "Time from the request's head to the end of its answer",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)


def count_answer(route: str, status: int, seconds: float) -> None:
    """Count and time an answer to a POST."""
    counter, timer = _of_post(route, status)
    counter.inc()
    timer.observe(seconds)


@cache
def _of_post(route: str, status: int) -> tuple[Counter, Histogram]:
    return REQUESTS.labels("POST", route, status), SECONDS.labels("POST", route)


def log_answer(
    method: str, path: str, status: int, seconds: float, request_id: str, trace: Trace | None
) -> None:
    """Write the line of a request, at debug level."""
    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        return  # building the line would cost more than an answer of the fast path
    _log.debug(
        "request",
        method=method,
        path=path,
        status=status,
        milliseconds=round(seconds * 1000, 2),
        request_id=request_id,
        **(trace.log_fields() if trace is not None else {}),
    )


def new_request_id() -> str:
    """Return an id for a request without one."""
    return uuid.uuid4().hex


class RequestContext:
    """Gives each request an id, counts and times it, and logs it at debug level.

    The fast path does the same by itself (see ``tests/app/server/test_both_paths.py``).

    The client's ``X-Request-Id`` is used if it is a plain word, and so is the trace of its
    ``traceparent``. Unexpected exceptions are answered here, and logged once.
    """

    def __init__(self, app: ASGIApp, cross_origin: CrossOrigin) -> None:
        self.app = app
        self._cross_origin = cross_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, trace = _request_id(scope), _trace(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        own_fields = [(b"x-request-id", request_id.encode()), *self._cross_origin.fields(scope)]
        if trace is not None:
            own_fields.append((b"traceparent", trace.field.encode()))
        started = time.perf_counter()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                milliseconds = (time.perf_counter() - started) * 1000
                timing = (b"server-timing", b"app;dur=%.2f" % milliseconds)
                message["headers"] = [*message.get("headers", ()), *own_fields, timing]
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except ClientDisconnect:
            status = _CLIENT_LEFT
        except asyncio.CancelledError:  # the server is stopping, and its grace period is over
            if status:
                raise
            ending = Unavailable("the server ended before it could answer")
            await problem_response(Request(scope), ending)(scope, receive, answer)
        except Exception as error:
            if status:
                raise  # it is too late for another answer
            await problem_response(Request(scope), error)(scope, receive, answer)
        finally:
            for call in scope["state"].get("at_end", ()):
                call()
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "unknown")
            REQUESTS.labels(scope["method"], route, status).inc()
            SECONDS.labels(scope["method"], route).observe(seconds)
            log_answer(scope["method"], scope["path"], status, seconds, request_id, trace)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if _SAFE_ID.fullmatch(text):
                return str(text)
    return new_request_id()


def _trace(scope: Scope) -> Trace | None:
    found = [value for name, value in scope["headers"] if name == b"traceparent"]
    return Trace.take_over(found[0].decode("latin-1")) if len(found) == 1 else None
