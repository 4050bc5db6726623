"""Batch normalization kernels in C for training, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.native import is_available

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

REFERENCE = CompileOptions(table=None)
Symbol = mx.sym.Symbol


def network(channels: int, *, groups: int = 1, has_relu: bool = False, **others: Any) -> Symbol:
    """A batch norm between convolutions; ragged group sizes make them run channels last."""
    layer = {"kernel": (1, 1), "num_filter": channels, "num_group": groups, "no_bias": True}
    out = mx.sym.Convolution(mx.sym.Variable("data"), name="first", **layer)
    out = mx.sym.BatchNorm(out, name="norm", **others)
    if has_relu:
        out = mx.sym.Activation(out, act_type="relu", name="relu")
    return mx.sym.Convolution(out, kernel=(1, 1), num_filter=16, name="last")


def trained(symbol: Symbol, data: tuple[int, ...], options: CompileOptions | None) -> Any:
    """Return an executor after two training steps from fixed values."""
    random = np.random.RandomState(3)
    shapes, (out,), states = symbol.infer_shape(data=data)
    arguments = {
        name: mx.nd.array(random.uniform(-1, 1, shape))
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    auxiliary = {
        name: mx.nd.array(random.uniform(0.5, 1.5, shape))
        for name, shape in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
    executor = bind(symbol, mx.cpu(), arguments, gradients, aux_states=auxiliary, options=options)
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward([mx.nd.array(random.randn(*out))])
    return executor


def kernels(executor: Any) -> set[str]:
    return {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }


def assert_equal(executor: Any, expected: Any, tolerance: float = 2e-5) -> None:
    found = executor.grad_dict | executor.aux_dict | {"output": executor.outputs[0]}
    wanted = expected.grad_dict | expected.aux_dict | {"output": expected.outputs[0]}
    for name, value in wanted.items():
        value = value.asnumpy()
        scale = max(float(np.abs(value).max()), 1.0)
        np.testing.assert_allclose(
            found[name].asnumpy() / scale, value / scale, atol=tolerance, err_msg=name
        )


@pytest.mark.parametrize("fix_gamma", [False, True], ids=["gamma", "fixed"])
@pytest.mark.parametrize("has_relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize(
    ("channels", "groups"), [(16, 1), (80, 1), (48, 2)], ids=["16", "80", "channels_last"]
)
@pytest.mark.parametrize("data", [(3, 4, 5, 7), (1, 4, 1, 1), (2, 4, 20, 30)], ids=str)
def test_training_equals_the_reference(
    data: tuple[int, ...], channels: int, groups: int, has_relu: bool, fix_gamma: bool
) -> None:
    """Fewer pixels than one tile, a single pixel, and two tiles and a bit."""
    symbol = network(channels, groups=groups, has_relu=has_relu, fix_gamma=fix_gamma, eps=1e-3)
    executor = trained(symbol, data, None)
    assert {"native:batch_norm", "native:batch_norm_backward"} <= kernels(executor)
    assert_equal(executor, trained(symbol, data, REFERENCE))


def test_check_mode_accepts_the_kernels() -> None:
    symbol = network(32, has_relu=True, fix_gamma=False)
    data = (2, 4, 9, 9)
    checked = trained(symbol, data, CompileOptions(check_kernels=True))
    assert_equal(checked, trained(symbol, data, REFERENCE))


def test_a_large_mean_does_not_cost_precision() -> None:
    """A sum of squares would lose it: next to 1000 squared, float32 has no digits for a variance of
    1e-4."""
    out = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=16, name="first")
    symbol = mx.sym.BatchNorm(out, name="norm", output_mean_var=True, eps=1e-8, fix_gamma=False)
    symbol = mx.sym.Group(list(symbol))
    values = np.random.RandomState(2).randn(4, 1, 16, 16) * 0.01 + 1000
    arguments = {
        "data": mx.nd.array(values),
        "first_weight": mx.nd.ones((16, 1, 1, 1)),
        "first_bias": mx.nd.zeros(16),
        "norm_gamma": mx.nd.ones(16),
        "norm_beta": mx.nd.zeros(16),
    }
    states = {"norm_moving_mean": mx.nd.zeros(16), "norm_moving_var": mx.nd.ones(16)}
    executor = bind(symbol, mx.cpu(), arguments, aux_states=states)
    out, mean, inverse = executor.forward(is_train=True)
    exact = values.astype("float32").astype("float64")
    assert "native:batch_norm" in kernels(executor)
    np.testing.assert_allclose(mean.asnumpy(), exact.mean(), rtol=1e-6)
    np.testing.assert_allclose(1 / inverse.asnumpy() ** 2, exact.var(), rtol=1e-3)
    # Near 100,000 (1000 times a scale of 100), float32 has two digits after the point.
    normal = (exact - mean.asnumpy()[0].astype("float64")) * inverse.asnumpy()[0]
    np.testing.assert_allclose(out.asnumpy()[:, :1], normal, atol=1e-5)


@pytest.mark.parametrize(
    ("channels", "others"),
    [(20, {}), (16, {"use_global_stats": True}), (16, {"axis": 2})],
    ids=["ragged", "global_statistics", "another_axis"],
)
def test_unsupported_layers_fall_back_to_other_kernels(
    channels: int, others: dict[str, Any]
) -> None:
    symbol, data = network(channels, fix_gamma=False, **others), (2, 4, 6, 6)
    executor = trained(symbol, data, None)
    assert not any(name.startswith("native") for name in kernels(executor))
    assert_equal(executor, trained(symbol, data, REFERENCE))
