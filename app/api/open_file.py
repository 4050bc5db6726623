"""Downloads of files that may be replaced or removed while they are sent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import BinaryIO

from fastapi.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from app.api.conditional import is_known

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
            stat_result=os.fstat(file.fileno()),
        )
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, unless the client has it."""
        try:
            if is_known(scope, self.headers["etag"]):  # before anything of it is read
                await Response(None, 304, {"ETag": self.headers["etag"]})(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._file.close()
