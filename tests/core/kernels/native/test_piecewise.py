"""ReLU, absolute value and clip by kernels in C, equal to the reference, at NaN as well."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.native import is_available
from core.types import Array

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

ENDS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 6.0, -1.0, np.nan, 3.0]
FUNCTIONS: dict[str, Callable[[mx.sym.Symbol], mx.sym.Symbol]] = {
    "relu": mx.sym.relu,
    "abs": mx.sym.abs,
    "clip": lambda data: mx.sym.clip(data, -1, 6),
}


def kernels(executor: mx.executor.Executor) -> set[str]:
    return {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }


def trained(
    symbol: mx.sym.Symbol, data: Array, head: Array, options: CompileOptions | None
) -> tuple[Array, Array, set[str]]:
    """Return values, the gradient of the data, and the kernels that ran."""
    shapes, _, _ = symbol.infer_shape(data=data.shape)
    arguments = {"data": mx.nd.array(data)}
    for name, shape in zip(symbol.list_arguments(), shapes, strict=True):
        if name != "data":
            arguments[name] = mx.nd.array(np.random.RandomState(4).randn(*shape))
    gradients = {"data": mx.nd.zeros(data.shape)}
    executor = bind(symbol, mx.cpu(), arguments, gradients, options=options)
    (out,) = executor.forward(is_train=True)
    executor.backward([mx.nd.array(head)])
    return out.asnumpy(), gradients["data"].asnumpy(), kernels(executor)


@pytest.mark.parametrize("size", [1, 9, 16, 4096 * 2 + 5])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_arrays_equal_the_reference(name: str, size: int) -> None:
    random = np.random.RandomState(2)
    data, head = np.resize(ENDS, size), random.randn(size)
    data[9:] = random.randn(*data[9:].shape) * 5
    head[1:30:4], head[2:30:4] = np.nan, np.inf
    symbol = FUNCTIONS[name](mx.sym.Variable("data"))
    found = trained(symbol, data, head, None)
    expected = trained(symbol, data, head, CompileOptions(table=None))
    assert "native:piecewise_backward" in found[2]
    assert not expected[2]
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("channels", [16, 20])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_images_between_convolutions_match_the_reference(name: str, channels: int) -> None:
    """In oneDNN's layouts, where channels are filled up to blocks."""
    layer = {"kernel": (3, 3), "no_bias": True}
    data = mx.sym.Variable("data")
    symbol = mx.sym.Convolution(data, num_filter=channels, name="first", **layer)
    symbol = mx.sym.Convolution(FUNCTIONS[name](symbol), num_filter=4, name="last", **layer)
    random = np.random.RandomState(3)
    values, head = random.randn(2, 3, 9, 8), random.randn(2, 4, 5, 4)
    found = trained(symbol, values, head, None)
    expected = trained(symbol, values, head, CompileOptions(table=None))
    assert "native:piecewise_backward" in found[2]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-4)
