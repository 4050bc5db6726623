"""Batch normalization over the last axis, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

SHAPES = {"ragged": (3, 4, 5, 20), "blocks": (2, 6, 32), "one_place": (5, 1, 7)}
CASES = {
    "free": {"fix_gamma": False, "axis": -1},
    "fixed": {"fix_gamma": True, "axis": -1},
    "global": {"fix_gamma": False, "axis": -1, "use_global_stats": True},
    "with_relu": {"fix_gamma": False, "axis": -1},
}


def run(case: str, shape: Any, options: CompileOptions | None, *, trains: bool) -> Any:
    """Return all results by name after two steps, and the kernels."""
    random = np.random.RandomState(3)
    symbol = mx.sym.BatchNorm(mx.sym.Variable("data"), name="n", eps=0.01, **CASES[case])
    if case == "with_relu":
        symbol = mx.sym.Activation(symbol, act_type="relu")
    shapes, _, states = symbol.infer_shape(data=shape)
    names = symbol.list_arguments()
    arguments = {
        name: mx.nd.array(random.randn(*one) + 1) for name, one in zip(names, shapes, strict=True)
    }
    gradients = {name: mx.nd.ones(one.shape) for name, one in arguments.items()}
    auxiliary = {
        name: mx.nd.array(random.uniform(0.5, 1.5, one))
        for name, one in zip(symbol.list_auxiliary_states(), states, strict=True)
    }
    executor = bind(
        symbol,
        mx.cpu(),
        arguments,
        gradients if trains else None,
        aux_states=auxiliary,
        options=options,
    )
    for _ in range(2):
        (out,) = executor.forward(is_train=trains)
        if trains:
            executor.backward([mx.nd.array(random.randn(*out.shape))])
    (plan,) = executor._plans.values()
    steps = plan.compiled.program.steps
    kernels = [step.kernel.name for step in steps if step.kernel is not None]
    found = {"output": out, **gradients, **auxiliary}
    return {name: one.asnumpy() for name, one in found.items()}, kernels


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
def test_batch_norm_over_the_last_axis(case: str, shape: str, trains: bool) -> None:
    expected, _ = run(case, SHAPES[shape], CompileOptions(table=None), trains=trains)
    got, kernels = run(case, SHAPES[shape], None, trains=trains)
    assert "onednn:batch_norm" in kernels
    assert ("onednn:batch_norm_backward" in kernels) == trains
    assert "onednn:reorder" not in kernels
    for name, wanted in expected.items():
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=2e-5 * scale, err_msg=name)
    run(case, SHAPES[shape], CompileOptions(check_kernels=True), trains=trains)
