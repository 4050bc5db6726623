"""Sends bodies that are made while they are sent, no faster than the client reads them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl

from app.api.exchanges import Body, LongBody

__all__ = ["LongSending", "length_line"]

_log = logging.getLogger(__name__)


def length_line(body: Body) -> bytes:
    """Return the header field that says where the body ends."""
    size = body.rest.size if isinstance(body, LongBody) else len(body)
    return b"transfer-encoding: chunked\r\n" if size is None else b"content-length: %d\r\n" % size


class LongSending:
    """A body that is being sent; its head was written."""

    def __init__(
        self,
        transport: asyncio.Transport,
        flow: FlowControl,
        body: LongBody,
        on_end: Callable[[], None],
    ) -> None:
        """Start to send it.

        Args:
            on_end: called when all of it was written, unless it is withdrawn.
        """
        self._transport = transport
        self._flow = flow
        self._body = body
        self._on_end = on_end
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda _: body.release())  # even if it never began

    def withdraw(self) -> None:
        """Stop, because the client is gone."""
        self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._send()
        except Exception:
            _log.exception("a body could not be completed")
            self._transport.abort()  # so that the client does not take it for complete
        else:
            self._on_end()

    async def _send(self) -> None:
        rest = self._body.rest
        self._write(self._body.first)
        while not rest.is_over and not self._transport.is_closing():
            await self._flow.drain()
            self._write(await asyncio.to_thread(rest.next_block))
        if rest.size is None:
            self._transport.write(b"0\r\n\r\n")

    def _write(self, block: memoryview) -> None:
        if not len(block):  # as a chunk it would be the end
            return
        if self._body.rest.size is not None:
            self._transport.write(block)
        else:
            self._transport.writelines([b"%x\r\n" % len(block), block, b"\r\n"])
