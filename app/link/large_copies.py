"""Copies into shared memory that do not block the event loop.

A large copy into new memory takes a tenth of a second, during which the event loop could not serve
anybody else. So it runs in a thread, without holding the GIL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from app.link.slab_port import SlabBuffers
from app.link.slots import Piece

__all__ = ["copy_tensors", "write_pieces"]

_MOST_AT_ONCE = 2**20  # takes a millisecond


async def copy_tensors(buffers: SlabBuffers, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Copy tensors into buffers, which are released if that fails or is cancelled."""
    if buffers.layout.size <= _MOST_AT_ONCE:
        buffers.copy(tensors)
        return
    copying = asyncio.get_running_loop().run_in_executor(None, buffers.copy, tensors)
    try:
        await asyncio.shield(copying)
    except asyncio.CancelledError:
        # A thread cannot be cancelled: until it is done, no other call may get the slab.
        copying.add_done_callback(lambda _: buffers.release())
        raise
    except Exception:
        buffers.release()
        raise


def write_pieces(
    buffers: SlabBuffers, pieces: Sequence[Piece], then: Callable[[BaseException | None], None]
) -> None:
    """Copy the bytes of tensors into buffers.

    Args:
        then: called with the error or None when the copy is done: before this returns if there is
            little to copy.
    """
    if buffers.layout.size <= _MOST_AT_ONCE:
        buffers.write(pieces)
        then(None)
        return
    copying = asyncio.get_running_loop().run_in_executor(None, buffers.write, pieces)
    copying.add_done_callback(lambda copied: then(copied.exception()))
