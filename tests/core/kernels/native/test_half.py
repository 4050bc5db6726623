"""Casts between float32 and float16 in C, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.kernels.native import is_available

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)


@pytest.mark.parametrize("count", [1, 16, 31, 4096 * 3 + 7])
def test_casts_both_ways_match_numpy(count: int) -> None:
    """Every bit pattern of float16; values between two float16s, above the largest, below the
    smallest."""
    random = np.random.RandomState(count)
    halves = np.frombuffer(random.bytes(2 * count), "float16")
    floats = np.frombuffer(random.bytes(4 * count), "float32").copy()
    floats[::2] = (random.randn(len(floats[::2])) * 10.0 ** random.randint(-8, 6)).astype("float32")
    with np.errstate(all="ignore"):
        expected = floats.astype("float16")
    symbol = mx.sym.Cast(mx.sym.Variable("data"), dtype="float16")
    executor = symbol.simple_bind(mx.cpu(), data=(count,), type_dict={"data": "float32"})
    executor.arg_dict["data"][:] = mx.nd.array(floats)
    (out,) = executor.forward(is_train=True)
    executor.backward([mx.nd.array(halves, dtype="float16")])
    names = {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }
    assert names == {"native:cast"}
    np.testing.assert_array_equal(out.asnumpy(), expected)
    np.testing.assert_array_equal(executor.grad_dict["data"].asnumpy(), halves.astype("float32"))
