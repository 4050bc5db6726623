"""Tensors in pooled shared memory.

A slab is an anonymous file (``memfd``) mapped by both processes. It has no name in any file
system, so nothing is left behind however a process ends. The owner of a slab takes it from its
pool, writes tensors into it and sends their positions; the other side maps the slab once and sees
the tensors as arrays without a copy.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from app.link.specs import TensorSpecs

__all__ = ["Layout", "Placement", "Slab", "SlabMap", "SlabPool", "SlabsExhausted"]

_ALIGNMENT = 64
"""Bytes of a cache line, and the widest alignment that vector instructions ask for (AVX-512)."""

_SMALLEST = 64 * 1024
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_NUMERIC_KINDS = frozenset("biuf")
_HALF = frozenset({np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)})

Placement: TypeAlias = Sequence[Any]
"""One tensor on the wire: [name, dtype, shape, offset in bytes]."""


class SlabsExhausted(Exception):
    """The pool's or the system's limit is reached; slabs in use must be released first."""


class Slab:
    """One piece of memory that two processes share.

    Attributes:
        id: number of the slab, unique in its pool.
        size: bytes.
        mapping: the memory.
    """

    __slots__ = ("_fd", "id", "mapping", "size")

    def __init__(self, slab_id: int, size: int, fd: int) -> None:
        self.id = slab_id
        self.size = size
        self._fd: int | None = fd
        self.mapping = mmap.mmap(fd, size)

    @classmethod
    def create(cls, slab_id: int, size: int, name: str = "modserve") -> Slab:
        """Create a slab. Its size is sealed, so that neither side can get a SIGBUS by the other
        truncating it."""
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            return cls(slab_id, size, fd)
        except BaseException:
            os.close(fd)
            raise

    def take_fd(self) -> int | None:
        """Return the descriptor for the caller to send and close; None if it was taken before."""
        fd, self._fd = self._fd, None
        return fd

    @property
    def was_sent(self) -> bool:
        """True if the other side may have mapped it."""
        return self._fd is None

    def close_fd(self) -> None:
        """Close the descriptor; the mapping stays."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def close(self) -> None:
        """Release the memory, now or together with the last array that uses it."""
        self.close_fd()
        with contextlib.suppress(BufferError):
            self.mapping.close()

    def arrays(self, placements: Sequence[Placement]) -> dict[str, npt.NDArray[Any]]:
        """Return placed tensors as arrays over the memory; raise ValueError if one exceeds the
        slab."""
        # frombuffer exports the buffer as long as an array over it lives, so that close() cannot
        # unmap it; np.ndarray alone would not.
        whole = np.frombuffer(self.mapping, dtype=np.uint8)
        return {
            name: np.ndarray(tuple(shape), dtype=dtype, buffer=whole, offset=offset)
            for name, dtype, shape, offset in placements
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of named tensors in a slab.

    Attributes:
        placements: one entry per tensor, ready for the wire.
        size: bytes in total, at least 1.
    """

    placements: list[Placement]
    size: int

    @classmethod
    def of(cls, specs: TensorSpecs) -> Layout:
        """Place tensors one after the other, each aligned to a cache line.

        Raises:
            TypeError: a dtype is not boolean, integer or floating point.
        """
        placements: list[Placement] = []
        offset = 0
        for name, (shape, dtype_like) in specs.items():
            code, item_bytes = _native(np.dtype(dtype_like))
            placements.append([name, code, shape, offset])
            size = item_bytes * math.prod(shape)
            offset += -(-size // _ALIGNMENT) * _ALIGNMENT
        return cls(placements, max(offset, 1))


@cache
def _native(dtype: np.dtype[Any]) -> tuple[str, int]:
    """Return the code of a dtype in this machine's byte order, and its size in bytes."""
    if dtype in _HALF:
        return dtype.name, dtype.itemsize
    if dtype.kind not in _NUMERIC_KINDS:
        raise TypeError(f"dtype {dtype} cannot be sent to an executor, only numbers can")
    return dtype.newbyteorder("=").str, dtype.itemsize


class SlabPool:
    """The slabs one side owns, reused by size class (powers of two).

    Not thread-safe: each pool belongs to one thread.

    Attributes:
        forgotten: ids of freed slabs, for the other side to unmap; the sender clears it.
    """

    def __init__(self, limit_bytes: int, idle_bytes: int) -> None:
        """Create an empty pool.

        Args:
            limit_bytes: limit on all slabs, including idle ones.
            idle_bytes: limit on slabs that are kept for reuse; further ones are freed.
        """
        self.limit_bytes = limit_bytes
        self.idle_bytes = idle_bytes
        self.forgotten: list[int] = []
        self._idle: dict[int, deque[Slab]] = {}
        self._idle_total = 0
        self._used: dict[int, Slab] = {}
        self._used_total = 0
        self._next_id = 0
        self._is_closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes in acquired slabs."""
        return self._used_total

    @property
    def total_bytes(self) -> int:
        """Bytes in all slabs, including idle ones."""
        return self._used_total + self._idle_total

    def acquire(self, nbytes: int) -> Slab:
        """Return a slab of at least this size with undefined content.

        Raises:
            SlabsExhausted: it does not fit under the limit.
        """
        size = max(_SMALLEST, 1 << (nbytes - 1).bit_length())
        idle = self._idle.get(size)
        if idle:
            slab = idle.pop()  # the one used last, whose pages are the likeliest to be cached
            self._idle_total -= size
        else:
            self._make_room(size)
            slab = self._create(size)
        self._used[slab.id] = slab
        self._used_total += size
        return slab

    def release(self, slab_id: int) -> None:
        """Return an acquired slab to the pool; raise KeyError if it is not acquired."""
        if self._is_closed:  # replies and buffers may outlive the connection
            return
        slab = self._used.pop(slab_id)
        self._used_total -= slab.size
        self._idle.setdefault(slab.size, deque()).append(slab)
        self._idle_total += slab.size
        self._trim(self.idle_bytes)

    def close(self) -> None:
        """Free every slab. Arrays that still exist keep their memory alive."""
        self._is_closed = True
        self._trim(0)
        for slab in self._used.values():
            slab.close()
        self._used.clear()
        self._used_total = 0

    def _create(self, size: int) -> Slab:
        self._next_id += 1
        try:
            return Slab.create(self._next_id, size)
        except OSError as error:
            raise SlabsExhausted(f"no shared memory of {size} bytes: {error.strerror}") from None

    def _make_room(self, size: int) -> None:
        if self._used_total + size > self.limit_bytes:
            raise SlabsExhausted(
                f"{size} bytes of shared memory do not fit: {self._used_total} of "
                f"{self.limit_bytes} are in use"
            )
        self._trim(self.limit_bytes - self._used_total - size)

    def _trim(self, keep_bytes: int) -> None:
        # The largest first, so that the fewest are lost; of one size, the one idle for longest.
        while self._idle_total > keep_bytes:
            size = max(size for size, slabs in self._idle.items() if slabs)
            slab = self._idle[size].popleft()
            self._idle_total -= size
            if slab.was_sent:
                self.forgotten.append(slab.id)
            slab.close()


class SlabMap:
    """The other side's slabs, each mapped when it is first mentioned."""

    def __init__(self) -> None:
        self._slabs: dict[int, Slab] = {}

    def __len__(self) -> int:
        return len(self._slabs)

    def add(self, slab_id: int, fd: int) -> None:
        """Map a slab by its received descriptor, and close the descriptor."""
        try:
            slab = Slab(slab_id, os.fstat(fd).st_size, fd)
        except BaseException:
            os.close(fd)
            raise
        slab.close_fd()
        self._slabs[slab_id] = slab

    def arrays(self, slab_id: int, placements: Sequence[Placement]) -> dict[str, npt.NDArray[Any]]:
        """Return tensors of a slab; raise KeyError for an unknown slab."""
        return self._slabs[slab_id].arrays(placements)

    def memory(self, slab_id: int) -> memoryview:
        """Return the bytes of a slab; raise KeyError when it is not known."""
        return memoryview(self._slabs[slab_id].mapping)

    def size(self, slab_id: int) -> int:
        """Return the bytes of a slab; raise KeyError when it is not known."""
        return self._slabs[slab_id].size

    def forget(self, slab_ids: Sequence[int]) -> None:
        """Drop mappings; their memory is unmapped when no array uses it any more."""
        for slab_id in slab_ids:
            self._slabs.pop(slab_id).close()

    def clear(self) -> None:
        """Drop all mappings."""
        self.forget(list(self._slabs))
