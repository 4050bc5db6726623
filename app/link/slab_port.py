"""One side's use of shared memory: its own slabs to send, the other side's to receive."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.link.client import Buffers, TensorSpecs
from app.link.frames import Frame, FrameReader
from app.link.shm import Layout, Slab, SlabMap, SlabPool
from app.link.signatures import Signature
from app.link.slots import Piece

__all__ = ["SlabBuffers", "SlabLimits", "SlabPort", "close_fds"]

_MOST_UNSENT = 16
_MOST_UNSENT_BYTES = 4 * 2**20
"""Releases wait for a frame that goes out anyway, until there are so many that the other side might
refuse calls for lack of the memory."""


@dataclass(frozen=True, slots=True)
class SlabLimits:
    """Shared memory of one direction between two processes.

    Attributes:
        limit_bytes: limit on memory; a call that would exceed it is refused.
        idle_bytes: limit on memory that is kept for reuse.
    """

    limit_bytes: int = 4 * 2**30
    idle_bytes: int = 256 * 2**20

    @property
    def largest_bytes(self) -> int:
        """Limit on one call or answer, whose slab may have up to twice its size."""
        return self.limit_bytes // 2


class SlabBuffers(Buffers):
    """Tensors in a slab of this side."""

    __slots__ = ("_pool", "layout", "slab")

    def __init__(self, pool: SlabPool, slab: Slab, layout: Layout) -> None:
        super().__init__(slab.arrays(layout.placements))
        self.slab = slab
        self.layout = layout
        self._pool: SlabPool | None = pool

    def is_from(self, pool: SlabPool) -> bool:
        """Return whether the slab belongs to this pool and has not been released.

        After a restart, buffers that were reserved in the dead executor's pool must not be sent.
        """
        return self._pool is pool

    def write(self, pieces: Sequence[Piece]) -> None:
        """Copy the bytes of each tensor into it, without holding the GIL."""
        whole = np.frombuffer(self.slab.mapping, np.uint8)
        for placement, piece in zip(self.layout.placements, pieces, strict=True):
            if len(piece):
                whole[placement[3] : placement[3] + len(piece)] = np.frombuffer(piece, np.uint8)

    def copy(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        """Copy tensors into it, C-contiguous and in native byte order."""
        for name, target in self.tensors.items():
            np.copyto(target, tensors[name])

    def release(self) -> None:
        """Return the slab to its pool, which invalidates the tensors."""
        if self._pool is not None:
            self.tensors.clear()  # each keeps the slab mapped after the pool has freed it
            self._pool.release(self.slab.id)
            self._pool = None


class SlabPort:
    """Puts tensors into outgoing frames and finds them in incoming ones.

    Fields it uses in a frame: ``slab`` and ``tensors`` (where the tensors are), ``new`` (the slab's
    descriptor comes with this frame), ``free`` (slabs of the receiver that are no longer used) and
    ``forget`` (slabs that the sender has freed).
    """

    def __init__(self, limits: SlabLimits) -> None:
        self.pool = SlabPool(limits.limit_bytes, limits.idle_bytes)
        self.peer = SlabMap()
        self._free: list[int] = []
        self._free_bytes = 0

    def reserve(self, specs: TensorSpecs) -> SlabBuffers:
        """Return uninitialised tensors; raise SlabsExhausted or TypeError."""
        layout = Layout.of(specs)
        slab = self.pool.acquire(layout.size)
        return SlabBuffers(self.pool, slab, layout)

    def reserve_for(self, tensors: Mapping[str, npt.NDArray[Any]]) -> SlabBuffers:
        """Return uninitialised tensors with the dtypes and shapes of others; raise SlabsExhausted
        or TypeError."""
        return self.reserve({name: (one.shape, one.dtype) for name, one in tensors.items()})

    def reserve_as(self, signature: Signature) -> SlabBuffers:
        """Return uninitialised tensors of a signature; raise SlabsExhausted."""
        layout = Layout([*signature.placements], max(signature.nbytes, 1))
        return SlabBuffers(self.pool, self.pool.acquire(layout.size), layout)

    def attach(self, frame: Frame, buffers: SlabBuffers | None) -> list[int]:
        """Add this side's fields to a frame; return descriptors to send with it and then close."""
        fds: list[int] = []
        if buffers is not None:
            frame["slab"] = buffers.slab.id
            frame["tensors"] = buffers.layout.placements
            fd = buffers.slab.take_fd()
            if fd is not None:
                frame["new"] = True
                fds.append(fd)
        if self._free:
            frame["free"], self._free = self._free, []
            self._free_bytes = 0
        if self.pool.forgotten:
            frame["forget"], self.pool.forgotten = self.pool.forgotten, []
        return fds

    def detach(self, frame: Frame, reader: FrameReader) -> dict[str, npt.NDArray[Any]]:
        """Remove the other side's fields from a frame; return its tensors without a copy."""
        # Before anything else in the frame can fail or return: the sender reports each slab once.
        for slab_id in frame.get("free", ()):
            self.pool.release(slab_id)
        self.peer.forget(frame.get("forget", ()))
        slab_id = frame.get("slab")
        if slab_id is None:
            return {}
        if "new" in frame:
            self.peer.add(slab_id, reader.take_fd())
        return self.peer.arrays(slab_id, frame["tensors"])

    def free(self, slab_id: int) -> None:
        """Record that a slab of the other side is no longer used; the next frame reports it."""
        self._free.append(slab_id)
        self._free_bytes += self.peer.size(slab_id)

    @property
    def is_note_due(self) -> bool:
        """True if there is so much to free that the report should not wait for the next frame."""
        return bool(
            self.pool.forgotten
            or len(self._free) >= _MOST_UNSENT
            or self._free_bytes >= _MOST_UNSENT_BYTES
        )

    def close(self) -> None:
        """Free everything."""
        self.pool.close()
        self.peer.clear()


def close_fds(fds: list[int]) -> None:
    """Close descriptors that were sent or will never be sent."""
    while fds:
        os.close(fds.pop())
