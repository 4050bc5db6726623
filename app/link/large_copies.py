"""Copies into shared memory that an event loop does not wait for.

A large copy into new memory takes a tenth of a second, in which nobody else would be answered; in a
thread, and without the interpreter's lock, it keeps nobody.
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
    """Copy tensors into buffers, which are released where that fails or is cancelled."""
    if buffers.layout.size <= _MOST_AT_ONCE:
        buffers.copy(tensors)
        return
    copying = asyncio.get_running_loop().run_in_executor(None, buffers.copy, tensors)
    try:
        await asyncio.shield(copying)
    except asyncio.CancelledError:
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
        then: called when that is done, with what went wrong; before this returns where they are
            few.
    """
    if buffers.layout.size <= _MOST_AT_ONCE:
        buffers.write(pieces)
        then(None)
        return
    copying = asyncio.get_running_loop().run_in_executor(None, buffers.write, pieces)
    copying.add_done_callback(lambda copied: then(copied.exception()))
