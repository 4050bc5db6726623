"""Frames between the server and a decoder process: a JSON object, and bytes that belong to it."""

from __future__ import annotations

import socket
import struct
from typing import Any

import numpy as np
import orjson

__all__ = ["Closed", "receive", "send"]

_LENGTHS = struct.Struct("<QQ")


class Closed(Exception):
    """The other side has closed the connection."""


def send(sock: socket.socket, head: Any, *pieces: bytes | memoryview) -> None:
    """Send a frame; raise Closed."""
    text = orjson.dumps(head)
    try:
        sock.sendall(_LENGTHS.pack(len(text), sum(len(piece) for piece in pieces)) + text)
        for piece in pieces:  # one after the other, because joining would copy them
            sock.sendall(piece)
    except (BrokenPipeError, ConnectionResetError):
        raise Closed from None


def receive(sock: socket.socket) -> tuple[Any, memoryview]:
    """Wait for a frame; raise Closed, or TimeoutError as the socket does."""
    head_bytes, data_bytes = _LENGTHS.unpack(_read(sock, _LENGTHS.size))
    head = orjson.loads(_read(sock, head_bytes))
    return head, _read(sock, data_bytes)


def _read(sock: socket.socket, size: int) -> memoryview:
    data = np.empty(size, np.uint8).data  # no memory page is touched before its bytes arrive
    done = 0
    while done < size:
        try:
            count = sock.recv_into(data[done:])
        except ConnectionResetError:
            count = 0
        if not count:
            raise Closed
        done += count
    return data
