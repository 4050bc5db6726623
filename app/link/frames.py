"""Frames on the socket between the API process and an executor process.

A frame is a length (u32, little-endian) and a JSON object, or records of fixed size (see
``packed_frames``). Descriptors of new slabs travel with the frame that first names them.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import orjson

__all__ = ["Frame", "FrameError", "FrameReader", "encode_frame", "encode_value", "send_some"]

Frame: TypeAlias = dict[str, Any]

_LENGTH = struct.Struct("<I")
_LARGEST_VALUE = 256 * 2**20
_LARGEST_FRAME = _LARGEST_VALUE + 2**20  # with room for what surrounds the value
_CHUNK = 64 * 2**10
_BRACE = b"{"
_MOST_FDS = 64  # the kernel closes descriptors for which a read has no room; frames carry one
_CONTROL_SPACE = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)


class FrameError(Exception):
    """The other side sent something that is not a frame, or a value is too large to send."""


def encode_value(value: Any) -> orjson.Fragment:
    """Encode plain data for a frame in advance, so that encoding the frame cannot fail.

    Raises:
        TypeError: it contains something other than plain data.
        FrameError: it is larger than 256 MiB.
    """
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    if len(body) > _LARGEST_VALUE:
        raise FrameError(f"{len(body)} bytes of JSON are over the limit of {_LARGEST_VALUE}")
    return orjson.Fragment(body)


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    body = orjson.dumps(frame, option=orjson.OPT_SERIALIZE_NUMPY)
    return _LENGTH.pack(len(body)) + body


def send_some(sock: socket.socket, data: memoryview, fds: Sequence[int]) -> int:
    """Send as much as the socket takes, the descriptors with the first byte; return the number of
    bytes."""
    if not fds:
        return sock.send(data)
    packed = array.array("i", fds).tobytes()
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])


class FrameReader:
    """Assembles received bytes into frames, and queues received descriptors.

    Attributes:
        may_have_more: False if the last read drained the socket.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.may_have_more = False
        self._sock = sock
        self._buffer = bytearray()
        self._fds: deque[int] = deque()

    def receive(self) -> bool:
        """Read available data, blocking if the socket does; return False at end of file."""
        data, ancillary, _, _ = self._sock.recvmsg(_CHUNK, _CONTROL_SPACE, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
                self._fds.extend(fds)
        self._buffer += data
        # The kernel ends a read after data that came with descriptors.
        self.may_have_more = len(data) == _CHUNK or bool(ancillary)
        return bool(data)

    def frames(self) -> Iterator[Frame | memoryview]:
        """Yield the complete frames received so far; packed ones as a view of their own bytes."""
        buffer = self._buffer
        position = 0
        try:
            while len(buffer) - position >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, position)
                if length > _LARGEST_FRAME:
                    raise FrameError(
                        f"a frame of {length} bytes was announced, which is over the limit"
                    )
                end = position + _LENGTH.size + length
                if len(buffer) < end:
                    break
                # A copy, because a bytearray cannot shrink while a view of it exists.
                body = bytes(memoryview(buffer)[position + _LENGTH.size : end])
                position = end
                yield orjson.loads(body) if body[:1] == _BRACE else memoryview(body)
        finally:
            del buffer[:position]

    def take_fd(self) -> int:
        """Return the next descriptor received."""
        if not self._fds:
            raise FrameError("a frame names a new slab, but its descriptor is missing")
        return self._fds.popleft()

    def close(self) -> None:
        """Close descriptors that no frame has claimed."""
        while self._fds:
            os.close(self._fds.popleft())
