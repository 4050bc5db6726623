"""Downloads of files that may be replaced or removed while they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

__all__ = ["OpenFileResponse"]


class OpenFileResponse(FileResponse):
    """Sends an open file and closes it, whatever becomes of its name meanwhile."""

    def __init__(self, file: BinaryIO, name: str, headers: Mapping[str, str] | None = None) -> None:
        # The link leads to the open file itself, not to what its name stands for by now.
        super().__init__(
            f"/proc/self/fd/{file.fileno()}",
            headers=headers,
            media_type="application/octet-stream",
            filename=name,
        )
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
