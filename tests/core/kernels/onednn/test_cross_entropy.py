"""Kernels of softmax_cross_entropy and of softmax with a temperature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

X = mx.sym.Variable("data")
DATA = np.random.RandomState(8).randn(5, 7).astype(np.float32)


def run(
    symbol: Any, head: np.ndarray, label: Any = None, options: CompileOptions | None = None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return output and gradient after two steps, and the kernels."""
    arrays = {"data": mx.nd.array(DATA)}
    if label is not None:
        arrays["label"] = mx.nd.array(label)
    grad = mx.nd.ones(DATA.shape)
    executor = bind(symbol, mx.cpu(), arrays, {"data": grad}, options=options)
    for _ in range(2):
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.array(head)])
    (plan,) = executor._plans.values()
    kernels = [step.kernel.name for step in plan.compiled.program.steps if step.kernel is not None]
    return out.asnumpy(), grad.asnumpy(), kernels


def softmax(data: np.ndarray) -> np.ndarray:
    powers = np.exp(data.astype(np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


def test_labels_are_truncated_and_may_be_out_of_range() -> None:
    symbol = mx.sym.softmax_cross_entropy(X, mx.sym.Variable("label"))
    labels = [6, 2.9, -1, 7, -0.5]
    out, grad, kernels = run(symbol, np.array([3.0]), labels)
    name = "onednn:softmax_cross_entropy"
    assert kernels == [name, f"{name}_backward"]
    share = softmax(DATA)
    # MXNet uses a probability of 1e-8 for out-of-range labels.
    chosen = [share[0, 6], share[1, 2], 1e-8, 1e-8, share[4, 0]]
    np.testing.assert_allclose(out, [-np.log(chosen).sum()], rtol=1e-5)
    share[0, 6] -= 1
    share[1, 2] -= 1
    share[4, 0] -= 1
    np.testing.assert_allclose(grad, 3 * share, rtol=1e-4, atol=1e-6)
    run(symbol, np.array([3.0]), labels, CompileOptions(check_kernels=True))


@pytest.mark.parametrize("temperature", [0.25, 3.0])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_with_a_temperature_matches_its_formula(name: str, temperature: float) -> None:
    symbol = getattr(mx.sym, name)(X, temperature=temperature)
    head = np.random.RandomState(9).randn(*DATA.shape)
    out, grad, kernels = run(symbol, head)
    assert kernels == ["onednn:softmax", "onednn:softmax_backward"]
    factor = (-1 if name == "softmin" else 1) / temperature
    share = softmax(factor * DATA)
    if name == "log_softmax":
        wanted, slope = np.log(share), head - share * head.sum(axis=1, keepdims=True)
    else:
        wanted, slope = share, share * (head - (head * share).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(grad, factor * slope, rtol=1e-3, atol=1e-5)
    run(symbol, head, options=CompileOptions(check_kernels=True))
