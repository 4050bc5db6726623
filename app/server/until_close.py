"""Answers of unknown length to HTTP/1.0, which has no chunks: they end with the connection."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["UntilClose"]

_LENGTHS = (b"content-length", b"transfer-encoding")


class UntilClose:
    """Passes a request on; uvicorn, which sends chunks to all, sends its answer as it is."""

    def __init__(self, app: ASGIApp, cycle: Any) -> None:
        """Prepare.

        Args:
            cycle: uvicorn's, of the request.
        """
        self._app = app
        self._cycle = cycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        cycle = self._cycle
        has_length = True

        async def send_plainly(message: Message) -> None:
            nonlocal has_length
            if message["type"] == "http.response.start":
                names = [name.lower() for name, _ in message.get("headers", ())]
                has_length = any(name in _LENGTHS for name in names)
                if not has_length:
                    cycle.chunked_encoding = False
            elif not has_length:
                # As if that many bytes were announced, and one more as long as it goes on.
                more = int(message.get("more_body", False))
                cycle.expected_content_length = len(message.get("body", b"")) + more
            await send(message)

        await self._app(scope, receive, send_plainly)
