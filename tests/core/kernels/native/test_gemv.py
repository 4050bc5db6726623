"""Fully connected layers of one row by the kernel in C."""

from __future__ import annotations

from typing import Any

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

KERNEL = "native:fully_connected"


def layer(outputs: int, *, has_bias: bool = True, slope: float | None = None) -> Any:
    """Return a layer, with an activation of this slope below zero if there is one."""
    symbol = mx.sym.FullyConnected(
        mx.sym.var("data"), num_hidden=outputs, no_bias=not has_bias, name="fc"
    )
    if slope is None:
        return symbol
    if slope == 0:
        return mx.sym.Activation(symbol, act_type="relu")
    return mx.sym.LeakyReLU(symbol, slope=slope)


def computed(symbol: Any, arrays: dict[str, Array], kernel: str) -> Array:
    """Return the output of inference, after a check of which kernel computes the layer."""
    executor = bind(symbol, mx.cpu(), {name: mx.nd.array(one) for name, one in arrays.items()})
    (out,) = executor.forward()
    steps = executor._last.compiled.program.steps  # type: ignore[union-attr]
    used = {step.kernel.name for step in steps if step.kernel is not None}
    assert used - {"onednn:reorder"} == {kernel}
    return out.asnumpy()


def random_arrays(outputs: int, inputs: int, *, has_bias: bool = True) -> dict[str, Array]:
    random = np.random.RandomState(outputs + inputs)
    shapes = {"data": (1, inputs), "fc_weight": (outputs, inputs), "fc_bias": (outputs,)}
    if not has_bias:
        del shapes["fc_bias"]
    return {name: random.randn(*shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("slope", [None, 0.0, 0.2])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(
    ("outputs", "inputs"), [(1, 1), (8, 16), (7, 15), (19, 33), (10, 784), (1003, 517)]
)
def test_one_row_matches_the_product_in_float64(
    outputs: int, inputs: int, has_bias: bool, slope: float | None
) -> None:
    arrays = random_arrays(outputs, inputs, has_bias=has_bias)
    found = computed(layer(outputs, has_bias=has_bias, slope=slope), arrays, KERNEL)
    exact = {name: one.astype(np.float64) for name, one in arrays.items()}
    expected = exact["data"] @ exact["fc_weight"].T + exact.get("fc_bias", 0)
    if slope is not None:
        expected = np.where(expected > 0, expected, slope * expected)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * inputs**0.5)


def test_a_changed_weight_is_used() -> None:
    arrays = {name: mx.nd.array(one) for name, one in random_arrays(5, 20).items()}
    executor = bind(layer(5), mx.cpu(), arrays)
    executor.forward()
    arrays["fc_weight"][:] = 0
    (out,) = executor.forward()
    np.testing.assert_array_equal(out.asnumpy(), arrays["fc_bias"].asnumpy()[None])


@pytest.mark.parametrize(
    ("value", "expected"), [(np.inf, np.inf), (-np.inf, 0), (np.nan, np.nan), (-1, 0)]
)
def test_relu_of_infinity_nan_and_negative_numbers(value: float, expected: float) -> None:
    arrays = {
        "data": np.float32([[value]]),
        "fc_weight": np.ones((1, 1), np.float32),
        "fc_bias": np.zeros(1, np.float32),
    }
    np.testing.assert_array_equal(computed(layer(1, slope=0.0), arrays, KERNEL), [[expected]])


def test_other_activations_and_more_rows_are_left_to_onednn() -> None:
    arrays = random_arrays(6, 20)
    tanh = mx.sym.Activation(layer(6), act_type="tanh")
    found = computed(tanh, arrays, "onednn:inner_product")
    three_rows = {**arrays, "data": np.repeat(arrays["data"], 3, 0)}
    rows = computed(layer(6), three_rows, "onednn:inner_product")
    np.testing.assert_allclose(np.tanh(rows), np.repeat(found, 3, 0), rtol=1e-5, atol=1e-6)


def test_data_of_three_axes_matches_the_reference() -> None:
    symbol = mx.sym.FullyConnected(
        mx.sym.var("data"), num_hidden=9, flatten=False, name="fc", no_bias=True
    )
    random = np.random.RandomState(3)
    arrays = {"data": random.randn(1, 1, 40), "fc_weight": random.randn(9, 40)}
    handles = {name: mx.nd.array(one) for name, one in arrays.items()}
    found, expected = (
        bind(symbol, mx.cpu(), handles, options=options).forward()[0].asnumpy()
        for options in (None, CompileOptions(table=None))
    )
    assert found.shape == (1, 1, 9)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_layers_of_one_row_and_onednn_primitives_run_as_one_call() -> None:
    x = mx.sym.var("data")
    for name in ("a", "b"):
        x = mx.sym.FullyConnected(x, num_hidden=4, name=name)
        x = mx.sym.Activation(x, act_type="relu")
    module = mx.mod.Module(mx.sym.softmax(x), label_names=None)
    module.bind([("data", (1, 6))], for_training=False)
    module.init_params(mx.init.One())
    module.forward(mx.io.DataBatch([mx.nd.ones((1, 6))]))
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), np.full((1, 4), 0.25))
    plan: Any = module._exec_group.execs[0]._last  # type: ignore[union-attr]
    assert [chain.count for chain in plan._forward.chains] == [3]
