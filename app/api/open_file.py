"""Downloads of files that may be replaced or removed while they are sent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import BinaryIO

from fastapi.responses import FileResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.api.conditional import is_known
from app.errors.tree import RangeBeyondEnd

__all__ = ["OpenFileResponse"]

_RANGES = re.compile(rb"bytes=\s*[0-9]{0,18}-[0-9]{0,18}(\s*,\s*[0-9]{0,18}-[0-9]{0,18})*\s*", re.I)


class OpenFileResponse(FileResponse):
    """Sends an open file and closes it, whatever happens to its name meanwhile."""

    def __init__(self, file: BinaryIO, name: str, headers: Mapping[str, str] | None = None) -> None:
        # The link leads to the open file itself, not to the file that has its name now.
        super().__init__(
            f"/proc/self/fd/{file.fileno()}",
            headers=headers,
            media_type="application/octet-stream",
            filename=name,
            stat_result=os.fstat(file.fileno()),
        )
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, unless the client already has it."""
        try:
            # Before anything of it is read.
            if is_known(scope, self.headers["etag"], self.headers["last-modified"]):
                await Response(None, 304, {"ETag": self.headers["etag"]})(scope, receive, send)
            else:
                await super().__call__(_with_sound_ranges(scope), receive, self._checked(send))
        finally:
            self._file.close()

    def _checked(self, send: Send) -> Send:
        """Return a sender that raises RangeBeyondEnd instead of Starlette's own answer."""

        async def send_unless_beyond(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 416:
                raise RangeBeyondEnd(os.fstat(self._file.fileno()).st_size)
            await send(message)

        return send_unless_beyond


def _with_sound_ranges(scope: Scope) -> Scope:
    """Return a request without a ``Range`` that is invalid, or not of a GET: it is ignored
    (RFC 9110, 14.2)."""
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name != b"range" or (scope["method"] == "GET" and _are_ranges(value))
    ]
    return {**scope, "headers": headers}


def _are_ranges(value: bytes) -> bool:
    if not _RANGES.fullmatch(value):
        return False
    for one in value.partition(b"=")[2].split(b","):
        first, _, last = one.strip().partition(b"-")
        if not (first or last) or (first and last and int(first) > int(last)):
            return False
    return True
