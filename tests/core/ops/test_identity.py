"""Casts, gradient stops and shape operators: dtypes and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError
from oracle.apply import apply, make

F16, F32, F64, I32, I64 = map(np.dtype, ("float16", "float32", "float64", "int32", "int64"))


def test_the_dtype_of_a_cast_does_not_determine_its_input() -> None:
    assert make("Cast", {"dtype": "int32"}).infer_type([None], [None]) == ([None], [I32])


def test_amp_cast_leaves_integers_alone() -> None:
    operator = make("amp_cast", {"dtype": "float16"})
    assert operator.infer_type([I32], [None])[1] == [I32]
    assert operator.infer_type([F32], [None])[1] == [F16]


def test_amp_multicast_takes_the_widest() -> None:
    operator = make("amp_multicast", {"num_outputs": 3})
    assert operator.infer_type([F16, F16, F32], [None] * 3)[1] == [F32] * 3
    narrow = make("amp_multicast", {"num_outputs": 2, "cast_narrow": True})
    assert narrow.infer_type([F16, F32], [None] * 2)[1] == [F16] * 2
    assert narrow.infer_type([F16, None], [None] * 2)[1] == [None] * 2


@pytest.mark.parametrize("narrow", [False, True])
def test_amp_multicast_leaves_integers_and_float64_alone(narrow: bool) -> None:
    """MXNet 1.9.1 gives the same."""
    operator = make("amp_multicast", {"num_outputs": 4, "cast_narrow": narrow})
    mixed = F16 if narrow else F32
    got = operator.infer_type([F16, I32, F64, F32], [None] * 4)[1]
    assert got == [mixed, I32, F64, mixed]


def test_amp_multicast_of_integers_only() -> None:
    """MXNet 1.9.1 gives the same."""
    operator = make("amp_multicast", {"num_outputs": 2})
    assert operator.infer_type([I32, I64], [None] * 2)[1] == [I32, I64]


def test_amp_multicast_casts() -> None:
    inputs = [np.float16([1.5]), np.float32([2.5])]
    heads = [np.float32([3.0]), np.float32([4.0])]
    got = apply("amp_multicast", {"num_outputs": 2}, inputs, heads)
    assert [(y.dtype, y.tolist()) for y in got.outputs] == [(F32, [1.5]), (F32, [2.5])]
    assert [(dx.dtype, dx.tolist()) for dx in got.grads] == [(F16, [3.0]), (F32, [4.0])]


@pytest.mark.parametrize("dtype", ["float31", "complex64", "None"])
def test_an_unknown_dtype_is_refused(dtype: str) -> None:
    with pytest.raises(AttributeValueError, match="Cast 'node': attribute 'dtype' is"):
        make("Cast", {"dtype": dtype})


def test_losses_and_block_grad_do_not_pass_gradients_on() -> None:
    assert make("make_loss", {}).passes_gradient() == ()
    assert make("BlockGrad", {}).passes_gradient() == ()
    assert make("_copy", {}).passes_gradient() == ((0, 0),)
    assert make("BlockGrad", {}).gradient_inputs(1) == ()


def test_shape_array_is_int64() -> None:
    assert make("shape_array", {}).infer_type([F32], [None]) == ([F32], [I64])
    assert make("shape_array", {}).infer_shape([(2, 3, 4)], [None])[1] == [(3,)]
    assert make("size_array", {}).infer_shape([None], [None])[1] == [(1,)]
