"""Running sums: inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import ShapeError
from oracle.apply import apply, make


def test_inferred_shapes_and_dtypes() -> None:
    assert make("cumsum", {}).infer_shape([(2, 3)], [None])[1] == [(6,)]
    assert make("cumsum", {"axis": 1}).infer_shape([None], [(2, 3)])[0] == [(2, 3)]
    wide = make("cumsum", {"dtype": "float64"})
    found = wide.infer_type([np.dtype("float32")], [None])
    assert found == ([np.dtype("float32")], [np.dtype("float64")])
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        make("cumsum", {"axis": 2}).infer_shape([(2, 3)], [None])


def test_a_negative_axis_counts_from_the_end() -> None:
    """MXNet refuses negative axes."""
    got = apply("cumsum", {"axis": -1}, [np.float32([[1, 2], [3, 4]])])
    assert got.outputs[0].tolist() == [[1, 3], [3, 7]]
