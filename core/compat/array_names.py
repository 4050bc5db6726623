"""Private methods of MXNet's arrays that scripts use nevertheless."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import Shape, shape_size

__all__ = ["ArrayNames"]


class ArrayNames:
    """Private methods of ``mxnet.nd.NDArray``."""

    __slots__ = ()

    @staticmethod
    def _basic_indexing_sliced_shape(slc_key: Sequence[slice], shape: Shape) -> Shape:
        """Return the shape of the region selected by one slice for each axis."""
        return _taken(slc_key, shape)

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: Sequence[slice], shape: Shape) -> bool:
        """Return whether the region selected by one slice for each axis is contiguous in memory."""
        taken = _taken(slc_key, shape)
        if shape_size(taken) <= 1:
            return True
        is_whole = True
        for part, count, size in reversed(list(zip(slc_key, taken, shape, strict=True))):
            if count > 1 and (not is_whole or part.indices(size)[2] != 1):
                return False
            is_whole = is_whole and count == size
        return True

    @staticmethod
    def _basic_indexing_contiguous_flat_begin_end(
        slc_key: Sequence[slice], shape: Shape
    ) -> tuple[int, int]:
        """Return the start and end of the contiguous memory selected by slices."""
        count = shape_size(_taken(slc_key, shape))
        if count == 0:
            return 0, 0
        starts = [part.indices(size)[0] for part, size in zip(slc_key, shape, strict=True)]
        begin = int(np.ravel_multi_index(starts, shape))
        return begin, begin + count


def _taken(slices: Sequence[slice], shape: Shape) -> Shape:
    return tuple(len(range(*part.indices(size))) for part, size in zip(slices, shape, strict=True))
