"""Reordered axes: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


def infer(op: str, data, output=None, **attrs):
    return make(op, attrs).infer_shape([data], [output])


def test_transpose_is_inferred_both_ways() -> None:
    got = infer("transpose", (0, 4, 2), (3, 0, 0), axes=(0, 2, 1))
    assert got == ([(3, 4, 2)], [(3, 2, 4)])
    assert infer("transpose", None, (3, 2)) == ([(2, 3)], [(3, 2)])
    assert infer("SwapAxis", None, (3, 2), dim1=0, dim2=1) == ([(2, 3)], [(3, 2)])


@pytest.mark.parametrize("axes", [(0, 2), (0, 2, 2), (0, 3, 2), (0, -1, 1)])
def test_axes_that_are_not_a_permutation_are_refused(axes) -> None:
    with pytest.raises(ShapeError, match="expected each of 0 to 2 once"):
        infer("transpose", (1, 4, 1), axes=axes)


def test_axes_out_of_range_are_refused() -> None:
    with pytest.raises(ShapeError, match="axis 3 is out of range"):
        infer("SwapAxis", (2, 3, 4), dim1=0, dim2=3)
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        infer("reverse", (2, 3), axis=2)
    with pytest.raises(AttributeValueError, match="'axis' is required"):
        make("reverse", {})


def test_space_to_depth_and_depth_to_space() -> None:
    got = infer("depth_to_space", (0, 8, 2, 3), block_size=2)
    assert got == ([(0, 8, 2, 3)], [(0, 2, 4, 6)])
    assert infer("space_to_depth", None, (1, 8, 2, 3), block_size=2)[0] == [(1, 2, 4, 6)]
    with pytest.raises(ShapeError, match="not a multiple of block_size squared, 4"):
        infer("depth_to_space", (1, 6, 2, 3), block_size=2)
    with pytest.raises(ShapeError, match="not multiples of block_size 2"):
        infer("space_to_depth", (1, 8, 3, 4), block_size=2)
    with pytest.raises(AttributeValueError, match="minimum is 1"):
        make("depth_to_space", {"block_size": 0})
    with pytest.raises(ShapeError, match="expected 4 dimensions"):
        infer("depth_to_space", (8, 2, 3), block_size=2)
