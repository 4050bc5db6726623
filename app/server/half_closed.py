"""Clients that have ended their side of a connection: some still read, others are gone.

Both send the same FIN. Only a client that is gone answers what is sent to it with a reset, so an
interim answer, which RFC 9110 lets every client ignore, tells them apart.
"""

from __future__ import annotations

import asyncio
import socket

__all__ = ["PROBE", "PROBE_SECONDS", "is_reset"]

PROBE = b"HTTP/1.1 100 Continue\r\n\r\n"
PROBE_SECONDS = 0.05
"""Until a reset is expected; a later one is seen within a second."""
_TCP_CLOSE = 7


def is_reset(transport: asyncio.Transport) -> bool:
    """Return whether the client has reset the connection; asyncio no longer reads it, nor sees."""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(socket, "TCP_INFO"):
        return False
    return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE)
