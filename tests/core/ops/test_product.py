"""Matrix products: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make


def infer(op: str, lhs, rhs, **attrs):
    return make(op, attrs).infer_shape([lhs, rhs], [None])


def test_dot_infers_the_inner_dimension() -> None:
    assert infer("dot", (0, 3), (0, 4)) == ([(0, 3), (3, 4)], [(0, 4)])
    assert infer("dot", (2, 3), None) == ([(2, 3), None], [None])


@pytest.mark.parametrize(
    ("op", "lhs", "rhs", "attrs", "message"),
    [
        ("dot", (2, 3), (4, 4), {}, "summed over axes of 3 and 4 elements"),
        ("dot", (3,), (3,), {"transpose_b": True}, "vectors have no transpose"),
        ("batch_dot", (2, 3, 4), (4, 5), {}, "same number of dimensions, at least 3"),
        ("batch_dot", (2, 3), (3, 5), {}, "same number of dimensions, at least 3"),
        ("batch_dot", (2, 3, 4), (2, 3, 5), {}, "summed over axes of 4 and 3 elements"),
        ("batch_dot", (1, 3, 4), (2, 4, 5), {}, r"rhs has shape \(2,\), expected \(1,\)"),
    ],
)
def test_incompatible_shapes_are_refused(op: str, lhs, rhs, attrs, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(op, lhs, rhs, **attrs)


def test_batch_dot_infers_both_inputs() -> None:
    got = infer("batch_dot", (0, 3, 4), (2, 4, 0))
    assert got == ([(2, 3, 4), (2, 4, 0)], [(2, 3, 0)])


def test_batch_dot_infers_nothing_until_both_inner_dimensions_are_known() -> None:
    """As mxnet 1.9.1: infer_shape_partial(x=(2, 3, 4), y=(2, 0, 5)) leaves the output ()."""
    for lhs, rhs in (((2, 3, 4), (2, 0, 5)), ((2, 3, 0), (2, 4, 5))):
        assert infer("batch_dot", lhs, rhs) == ([lhs, rhs], [None])
