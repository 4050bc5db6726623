"""Instance and group normalization against their references, alone and between convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.kernel import KernelUnavailable
from core.kernels.onednn import is_available
from core.kernels.onednn.memory import plain, sample_of, strided

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

KERNEL = "onednn:sample_norm"
SHAPE = (3, 16, 5, 7)
X = mx.sym.Variable("data")


def convolution(data: Any) -> Any:
    return mx.sym.Convolution(data, kernel=(3, 3), num_filter=16, name="c", no_bias=True)


CASES = {
    "instance": mx.sym.InstanceNorm(X, name="n", eps=1e-3),
    "instance_wide_eps": mx.sym.InstanceNorm(X, name="n", eps=0.5),
    "group": mx.sym.GroupNorm(X, name="n", num_groups=4),
    "one_group": mx.sym.GroupNorm(X, name="n", num_groups=1),
    "instance_of_convolution": mx.sym.InstanceNorm(convolution(X), name="n"),
    "group_of_convolution": mx.sym.GroupNorm(convolution(X), name="n", num_groups=2),
}


def trained(
    symbol: Any, requests: dict[str, str], options: CompileOptions | None = None
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the output and the gradients after two steps, and the kernels."""
    random = np.random.RandomState(7)
    shapes, _, _ = symbol.infer_shape(data=SHAPE)
    names = symbol.list_arguments()
    arguments = {
        name: mx.nd.array(random.randn(*shape) + 3)
        for name, shape in zip(names, shapes, strict=True)
    }
    gradients = {name: mx.nd.ones(one.shape) for name, one in arguments.items()}
    asked = {name: requests.get(name, "write") for name in names}
    executor = bind(symbol, mx.cpu(), arguments, gradients, asked, options=options)
    for _ in range(2):
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.array(random.randn(*out.shape))])
    (plan,) = executor._plans.values()
    kernels = [step.kernel.name for step in plan.compiled.program.steps if step.kernel is not None]
    found = {name: one.asnumpy() for name, one in gradients.items()}
    return found | {"output": out.asnumpy()}, kernels


REQUESTS = {
    "write": {},
    "add": {"data": "add", "n_gamma": "add", "n_beta": "add"},
    "data only": {"n_gamma": "null", "n_beta": "null"},
    "beta only": {"n_gamma": "null"},
}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("requests", REQUESTS)
@pytest.mark.parametrize("case", CASES)
def test_output_and_gradients_match_the_reference(case: str, requests: str, check: bool) -> None:
    symbol, asked = CASES[case], REQUESTS[requests]
    got, kernels = trained(symbol, asked, CompileOptions(check_kernels=check))
    expected, _ = trained(symbol, asked, CompileOptions(table=None))
    assert {KERNEL, f"{KERNEL}_backward"} <= set(kernels)
    for name, wanted in expected.items():
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=2e-5 * scale, err_msg=name)


def test_group_norm_outputs_its_statistics() -> None:
    symbol = mx.sym.GroupNorm(X, num_groups=2, eps=0.1, output_mean_var=True)
    data = np.random.RandomState(1).randn(2, 4, 3).astype(np.float32)
    ones = {name: mx.nd.ones((2,)) for name in symbol.list_arguments()[1:]}
    executor = bind(symbol, mx.cpu(), {"data": mx.nd.array(data), **ones})
    _, mean, deviation = (out.asnumpy() for out in executor.forward())
    groups = data.reshape(2, 2, 6).astype(np.float64)
    np.testing.assert_allclose(mean, groups.mean(axis=2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation, np.sqrt(groups.var(axis=2) + 0.1), rtol=1e-5)


@pytest.mark.parametrize("case", ["instance", "instance_of_convolution"])
def test_the_reference_runs_where_data_needs_no_gradient(case: str) -> None:
    requests = {"data": "null", "c_weight": "null"}
    got, kernels = trained(CASES[case], requests)
    expected, _ = trained(CASES[case], requests, CompileOptions(table=None))
    assert f"{KERNEL}_backward" not in kernels
    for name in ("n_gamma", "n_beta"):
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-4, atol=1e-4)


def test_interleaved_samples_are_refused() -> None:
    assert sample_of(plain((3, 4, 5, 6))) == plain((1, 4, 5, 6))
    with pytest.raises(KernelUnavailable, match="are interleaved"):
        sample_of(strided((3, 4, 5), (1, 15, 3)))
