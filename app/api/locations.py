"""``Location`` headers for clients behind a proxy."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["PrefixedLocations"]


class PrefixedLocations:
    """Puts the root path before the paths in ``Location``."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self.app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                location = headers.get("location", "")
                if location.startswith("/"):
                    headers["location"] = self._root_path + location
            await send(message)

        await self.app(scope, receive, answer if scope["type"] == "http" else send)
