"""Shared memory for small predictions: one block of equal slots, mapped once by both sides.

A prediction's inputs are written into a slot, and then overwritten by its outputs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from app.link.shm import Slab, SlabsExhausted

__all__ = ["SLOT_BYTES", "Piece", "SlotMap", "SlotPool"]

SLOT_BYTES = 16 * 2**10
"""Enough for a prediction of a few numbers or one small image; larger ones take a slab."""

_SLOTS = 1024

Piece: TypeAlias = bytes | memoryview
"""The bytes of one tensor."""


class SlotPool:
    """The allocating side of the slots. The slot released last is reused first, while it is
    cached."""

    def __init__(self, count: int = _SLOTS) -> None:
        self._slab = Slab.create(0, count * SLOT_BYTES, "modserve-slots")
        self._free = list(range(count - 1, -1, -1))
        self._memory = np.frombuffer(self._slab.mapping, np.uint8)
        self._view = self._memory.data

    def take_fd(self) -> int | None:
        """Return the descriptor for the caller to send and close; None if it was taken before."""
        return self._slab.take_fd()

    def take(self) -> int:
        """Return a free slot; raise SlabsExhausted."""
        if not self._free:
            raise SlabsExhausted("all slots for small predictions are in use")
        return self._free.pop()

    def give_back(self, slot: int) -> None:
        """Release a slot."""
        self._free.append(slot)

    def write(self, slot: int, offsets: Sequence[int], pieces: Sequence[Piece]) -> None:
        """Copy tensors into a slot."""
        view, begin = self._view, slot * SLOT_BYTES
        for offset, piece in zip(offsets, pieces, strict=True):
            at = begin + offset
            view[at : at + len(piece)] = piece

    def memory(self, slot: int) -> memoryview:
        """Return the bytes of a slot."""
        return self._view[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES]

    def close(self) -> None:
        """Release the memory."""
        del self._view, self._memory  # a mapping cannot be closed while views of it exist
        self._slab.close()


class SlotMap:
    """The slots as seen by the other side."""

    def __init__(self, fd: int) -> None:
        """Map the slots by their received descriptor, and close it."""
        try:
            self._slab = Slab(0, os.fstat(fd).st_size, fd)
        except BaseException:
            os.close(fd)
            raise
        self._slab.close_fd()
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(self._slab.mapping, np.uint8)

    @staticmethod
    def begin(slot: int) -> int:
        """Return the offset of a slot."""
        return slot * SLOT_BYTES
