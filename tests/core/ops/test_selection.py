"""``where`` and diagonals: inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import ShapeError
from oracle.apply import apply, make

F32, I32 = np.dtype("float32"), np.dtype("int32")


def infer(op: str, *inputs, output=None, **attrs):
    return make(op, attrs).infer_shape(list(inputs), [output])


def test_where_completes_its_inputs_shapes() -> None:
    got = infer("where", (2, 0), (2, 3), None)
    assert got == ([(2, 3), (2, 3), (2, 3)], [(2, 3)])
    assert infer("where", (0,), (2, 3), None)[0][0] == (2,)
    assert infer("where", (2, 3), None, None) == ([(2, 3), None, None], [None])


@pytest.mark.parametrize("condition", [(3,), (2, 4)])
def test_conditions_of_the_wrong_shape_are_refused(condition) -> None:
    with pytest.raises(ShapeError, match="condition has shape"):
        infer("where", condition, (2, 3), None)


def test_condition_keeps_its_dtype() -> None:
    got = make("where", {}).infer_type([I32, None, F32], [None])
    assert got == ([I32, F32, F32], [F32])


def test_elements_not_chosen_get_zero_gradient_even_at_nan() -> None:
    x = np.float32([1, 2])
    got = apply("where", {}, [np.float32([1, 0]), x, x], [np.float32([np.nan, 3])])
    np.testing.assert_array_equal(got.grads[1], [np.nan, 0])
    np.testing.assert_array_equal(got.grads[2], [0, 3])


def test_inferred_shapes_of_diagonals() -> None:
    assert infer("diag", (3,), k=1)[1] == [(4, 4)]
    assert infer("diag", (0,))[1] == [(0, 0)]
    with pytest.raises(ShapeError, match="k 4 is outside"):
        infer("diag", (3, 4), k=4)
    with pytest.raises(ShapeError, match="are the same axis"):
        infer("diag", (3, 4, 5), axis1=1, axis2=1)
