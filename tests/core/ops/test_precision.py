"""float16 arrays are computed in float32."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.device import Context
from core.errors import TypeInferenceError
from core.ops import Run
from core.ops.precision import wide_backward, wide_forward
from core.random import DeviceRandom


class Double:
    """Doubles its first input and counts calls in its second, an auxiliary state."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    @wide_forward
    def forward(self, run, inputs, outputs) -> None:
        self.seen += [*inputs, *outputs]
        np.multiply(inputs[0], 2, out=outputs[0])
        inputs[1][...] += 1

    @wide_backward
    def backward(self, run, out_grads, inputs, outputs, in_grads) -> None:
        self.seen += [*out_grads, *in_grads]
        np.multiply(out_grads[0], 2, out=in_grads[0])


def environment() -> Run:
    return Run(np, True, DeviceRandom(Context("cpu", 0), 0), lambda s, t: np.full(s, np.nan, t))


def run_double(dtype: str) -> tuple[Double, np.ndarray, np.ndarray, np.ndarray]:
    operator, count = Double(), np.zeros(1, "float32")
    data, out = np.ones(3, dtype), np.empty(3, dtype)
    operator.forward(environment(), [data, count], [out])
    grad = np.empty(3, dtype)
    operator.backward(environment(), [np.ones(3, dtype)], [None, count], [None], [grad, None])
    return operator, out, grad, count


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_results_come_back_in_their_dtype(dtype: str) -> None:
    _, out, grad, count = run_double(dtype)
    np.testing.assert_array_equal(out, np.full(3, 2, dtype))
    np.testing.assert_array_equal(grad, np.full(3, 2, dtype))
    assert out.dtype == grad.dtype == dtype
    assert count == 1


def test_only_float16_is_widened() -> None:
    for dtype, used in (("float16", "float32"), ("float32", "float32"), ("float64", "float64")):
        operator, *_ = run_double(dtype)
        first = [x for x in operator.seen if x is not None and x.shape == (3,)]
        assert {x.dtype for x in first} == {np.dtype(used)}


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_an_operator_that_cannot_compute_integers_says_so(dtype: str) -> None:
    data = mx.nd.array([[1, 2]], dtype=dtype)
    with pytest.raises(TypeInferenceError, match=f"operator L2Normalization of {dtype} cannot"):
        mx.nd.L2Normalization(data)
    symbol = mx.sym.L2Normalization(mx.sym.Variable("data"), name="length")
    executor = symbol.bind(mx.cpu(), {"data": data})
    with pytest.raises(TypeInferenceError, match=r"length.* cannot be computed; cast"):
        executor.forward()
