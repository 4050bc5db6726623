"""Matrix products against NumPy in float64; the golden cases compare them with MXNet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=["dot", "stack", "stacks"])
@pytest.mark.parametrize("wanted", [("lhs", "rhs"), ("lhs",), ("rhs",)], ids="-".join)
def test_products_and_their_gradients(
    transpose_a: bool, transpose_b: bool, batch: tuple[int, ...], wanted: tuple[str, ...]
) -> None:
    rows, inner, columns = 17, 33, 5
    random = np.random.RandomState(2)
    lhs = random.randn(*batch, *((inner, rows) if transpose_a else (rows, inner)))
    rhs = random.randn(*batch, *((columns, inner) if transpose_b else (inner, columns)))
    grad = random.randn(*batch, rows, columns)
    multiply: Any = mx.sym.batch_dot if batch else mx.sym.dot
    symbol = multiply(
        mx.sym.Variable("lhs"),
        mx.sym.Variable("rhs"),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    executor = symbol.bind(
        mx.cpu(),
        {"lhs": mx.nd.array(lhs), "rhs": mx.nd.array(rhs)},
        args_grad={name: mx.nd.zeros({"lhs": lhs, "rhs": rhs}[name].shape) for name in wanted},
        grad_req={name: "write" if name in wanted else "null" for name in ("lhs", "rhs")},
    )
    assert "onednn:product_backward" in executor.debug_str()
    (out,) = executor.forward(is_train=True)
    executor.backward([mx.nd.array(grad)])
    left = np.swapaxes(lhs, -1, -2) if transpose_a else lhs
    right = np.swapaxes(rhs, -1, -2) if transpose_b else rhs
    expected = {
        "lhs": grad @ np.swapaxes(right, -1, -2),
        "rhs": np.swapaxes(left, -1, -2) @ grad,
    }
    if transpose_a:
        expected["lhs"] = np.swapaxes(expected["lhs"], -1, -2)
    if transpose_b:
        expected["rhs"] = np.swapaxes(expected["rhs"], -1, -2)
    np.testing.assert_allclose(out.asnumpy(), left @ right, rtol=1e-4, atol=1e-4)
    for name in wanted:
        found = executor.grad_dict[name].asnumpy()
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-4)
