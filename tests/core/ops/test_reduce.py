"""Reductions: inference, precision and errors."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, ShapeError
from oracle.apply import apply, make


def infer(op: str, data, **attrs):
    return make(op, attrs).infer_shape([data], [None])[1][0]


@pytest.mark.parametrize(
    ("attrs", "data", "expected"),
    [
        ({}, (2, 3), (1,)),
        ({"axis": ()}, (2, 3), (1,)),
        ({"axis": (1, 0)}, (2, 3), (1,)),
        ({"keepdims": True}, (2, 3), (1, 1)),
        ({"axis": 1, "exclude": True}, (2, 3), (3,)),
        ({"exclude": True}, (2, 3), (1,)),
        ({"axis": 1}, (0, 3), (0,)),
        ({"axis": 0}, (4,), (1,)),
    ],
)
def test_inferred_shapes(attrs, data, expected) -> None:
    assert infer("sum", data, **attrs) == expected


def test_axes_are_checked() -> None:
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        infer("sum", (2, 3), axis=2)
    with pytest.raises(ShapeError, match="names one axis twice"):
        infer("max", (2, 3), axis=(0, -2))
    with pytest.raises(ShapeError, match="at least 2 dimensions"):
        infer("argmax_channel", (3,))
    with pytest.raises(AttributeValueError, match="maximum is 2"):
        make("norm", {"ord": 3})
    with pytest.raises(AttributeValueError, match="a tuple of an integer or None"):
        make("sum", {"axis": "rows"})


def test_half_precision_accumulates_in_float32() -> None:
    data = np.full((1, 4096), 32.0, "float16")
    assert apply("mean", {"axis": 1}, [data]).outputs[0].item() == 32
    small = np.full((1, 4096), 0.25, "float16")
    assert apply("sum", {"axis": 1}, [small]).outputs[0].item() == 1024


def test_numpy_sum_of_everything_is_a_scalar() -> None:
    got = apply("_np_sum", {"dtype": "float64", "initial": 1.5}, [np.ones((2, 3), "float32")])
    assert got.outputs[0].shape == ()
    assert got.outputs[0].item() == 7.5


def test_argmax_has_the_dtype_of_the_data() -> None:
    operator = make("argmax", {"axis": 1})
    assert operator.infer_type([np.dtype("float16")], [None])[1] == [np.dtype("float16")]


def test_argmax_finds_nan() -> None:
    data = np.float32([[1, np.nan, 3]])
    assert apply("argmax", {"axis": 1}, [data]).outputs[0].tolist() == [1.0]


def test_square_sum_and_its_gradient() -> None:
    # The example in MXNet's documentation, and its gradient by hand.
    data = mx.nd.array([[0, 0], [1, 2], [0, 0], [3, 4], [0, 0]])
    square_sum = mx.nd._internal._square_sum
    assert square_sum(data.tostype("row_sparse"), axis=1).asnumpy().tolist() == [0, 5, 0, 25, 0]
    data.attach_grad()
    with mx.autograd.record():
        loss = square_sum(data, axis=0, keepdims=True)
    loss.backward(mx.nd.array([[1, 10]]))
    np.testing.assert_array_equal(data.grad.asnumpy(), 2 * data.asnumpy() * [1, 10])


@pytest.mark.parametrize("axis", [1, (0, 1), None])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("op", ["prod", "nanprod"])
def test_the_gradient_of_a_product_is_the_product_of_the_others(
    op: str, dtype: str, axis: int | tuple[int, ...] | None
) -> None:
    x = np.array([[4, 0, 2], [2, 3, 1], [0, 0, 5], [5, -1, 3]], dtype)
    if op == "nanprod":
        x[1, 2] = np.nan
    axes = (0, 1) if axis is None else axis
    factors = np.where(np.isnan(x), 1, x).astype("float64")
    wanted = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        others = factors.copy()
        others[place] = 1
        along = others.prod(axis=axes, keepdims=True)
        wanted[place] = np.broadcast_to(along, x.shape)[place]
    wanted[np.isnan(x)] = 0
    got = apply(
        op, {"axis": axis, "keepdims": True}, [x], [np.full_like(x.sum(axes, keepdims=True), 2)]
    )
    np.testing.assert_array_equal(got.grads[0], 2 * wanted)
