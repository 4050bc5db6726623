"""LayerNorm's backward kernel against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

KERNEL = "onednn:layer_norm_backward"
SHAPE = (3, 5, 17)


def trained(requests: dict[str, str], options: CompileOptions | None = None, **attributes: Any):
    """Return the gradients after two steps, and the kernels."""
    random = np.random.RandomState(7)
    symbol = mx.sym.LayerNorm(mx.sym.Variable("data"), name="n", **attributes)
    shapes, _, _ = symbol.infer_shape(data=SHAPE)
    arguments = {
        name: mx.nd.array(random.randn(*shape) + 3)
        for name, shape in zip(symbol.list_arguments(), shapes, strict=True)
    }
    gradients = {name: mx.nd.ones(one.shape) for name, one in arguments.items()}
    executor = bind(symbol, mx.cpu(), arguments, gradients, requests, options=options)
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward([mx.nd.array(random.randn(*SHAPE))])
    (plan,) = executor._plans.values()
    names = [step.kernel.name for step in plan.compiled.program.steps if step.kernel is not None]
    return {name: one.asnumpy() for name, one in gradients.items()}, names


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    "requests",
    [
        {"data": "write", "n_gamma": "write", "n_beta": "write"},
        {"data": "add", "n_gamma": "add", "n_beta": "write"},
        {"data": "write", "n_gamma": "null", "n_beta": "null"},
    ],
    ids=["write", "add", "data only"],
)
@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_gradients_match_the_reference(requests: dict[str, str], check: bool, eps: float) -> None:
    got, names = trained(requests, CompileOptions(check_kernels=check), eps=eps)
    expected, _ = trained(requests, CompileOptions(table=None), eps=eps)
    assert KERNEL in names
    for name, wanted in expected.items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=2e-5, err_msg=name)


def test_the_reference_runs_where_data_needs_no_gradient() -> None:
    requests = {"data": "null", "n_gamma": "write", "n_beta": "write"}
    got, names = trained(requests)
    expected, _ = trained(requests, CompileOptions(table=None))
    assert KERNEL not in names
    for name, wanted in expected.items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=2e-5, err_msg=name)
