"""Fields that let pages of allowed origins read an answer (CORS), in whatever way it is made.

They are added outside of everything that answers, and on the fast path: a page could not even read
the error of an answer without them. Starlette answers the preflights.
"""

from __future__ import annotations

from fastapi.middleware.cors import CORSMiddleware
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Scope, Send

from app.api.openapi_headers import HEADER_NAMES

__all__ = ["CrossOrigin", "Preflights"]

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_ALWAYS_READABLE = frozenset({"Cache-Control", "Last-Modified"})
_EXPOSED = ", ".join(sorted(HEADER_NAMES - _ALWAYS_READABLE)).encode()
_ANY = "*"


class CrossOrigin:
    """The origins whose pages may read answers."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        """Prepare; see the setting ``allowed_origins``."""
        self.allowed = allowed

    def fields(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the fields of the answer to a request; a preflight's are Starlette's."""
        headers = Headers(scope=scope)
        is_preflight = "access-control-request-method" in headers and scope["method"] == "OPTIONS"
        if not self.allowed or is_preflight:
            return []
        origin = headers.get("origin")
        vary = (b"vary", b"Origin")
        if origin is None or not (_ANY in self.allowed or origin in self.allowed):
            return [vary]
        shown = _ANY if _ANY in self.allowed else origin
        return [
            (b"access-control-allow-origin", shown.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED),
            vary,
        ]


class Preflights(CORSMiddleware):
    """Answers preflights; other answers get their fields from ``CrossOrigin``."""

    def __init__(self, app: ASGIApp, allowed: tuple[str, ...]) -> None:
        super().__init__(app, allow_origins=allowed, allow_methods=_METHODS, allow_headers=["*"])

    async def send(self, message: Message, send: Send, request_headers: Headers) -> None:
        """Pass an answer on."""
        await send(message)
