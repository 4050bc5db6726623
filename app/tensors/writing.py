"""Writing large bodies in steps, so that other threads get the interpreter's lock in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

__all__ = ["Buffer", "HostArray", "as_octets", "join", "json_pieces"]

HostArray = npt.NDArray[Any]
Buffer: TypeAlias = bytes | memoryview

_NUMBERS_AT_ONCE = 1 << 13  # holds the lock for less than a millisecond


def json_pieces(array: HostArray) -> Iterator[bytes]:
    """Yield the JSON text of an array as nested lists."""
    if array.size <= _NUMBERS_AT_ONCE or array.ndim == 0:
        yield orjson.dumps(array.tolist())
        return
    rows = _NUMBERS_AT_ONCE // max(1, array.size // len(array))  # 0 if one row is too large
    opening = b"["
    for begin in range(0, len(array), max(1, rows)):
        yield opening
        if rows:
            yield orjson.dumps(array[begin : begin + rows].tolist())[1:-1]
        else:
            yield from json_pieces(array[begin])
        opening = b","
    yield b"]"


def join(pieces: Iterable[Buffer | HostArray]) -> memoryview:
    """Join pieces into one buffer.

    NumPy copies without the interpreter's lock; ``bytes.join`` does so only if all pieces are
    ``bytes``.
    """
    parts = [as_octets(piece) for piece in pieces]
    whole = np.empty(sum(part.size for part in parts), np.uint8)
    end = 0
    for part in parts:
        begin, end = end, end + part.size
        whole[begin:end] = part
    return whole.data


def as_octets(data: Buffer | HostArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of an array or buffer.

    ``np.frombuffer`` refuses empty buffers in some NumPy versions.
    """
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
