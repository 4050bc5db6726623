"""im2col and col2im: one spatial axis, which MXNet lacks, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import apply, make


def test_windows_over_one_spatial_axis() -> None:
    line = np.float32([[[1, 2, 3]]])
    got = apply("im2col", {"kernel": (3,), "pad": (1,)}, [line]).outputs[0]
    assert got.tolist() == [[[0, 1, 2], [1, 2, 3], [2, 3, 0]]]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="no window of kernel"):
        make("im2col", {"kernel": (3, 3)}).infer_shape([(1, 1, 2, 5)], [None])
    sums = make("col2im", {"kernel": (2, 2), "output_size": (3, 3)})
    with pytest.raises(ShapeError, match=r"expected \(N, C \* 4, 4\)"):
        sums.infer_shape([(1, 4, 5)], [None])
    with pytest.raises(AttributeValueError, match="output_size is"):
        make("col2im", {"kernel": (2, 2), "output_size": (3,)})
