"""Reductions against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available
from core.kernels.onednn.staged_reduction import Stage, stages_of

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

X = mx.sym.Variable("data")
CHECKED = CompileOptions(check_kernels=True)


def run(
    symbol: Any, data: np.ndarray, head: float = 0.0, options: CompileOptions | None = None
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, bool]]]:
    """Return the output, the data's gradient, and the kernels as (name, whether backward).

    The head gradient counts up from ``head``.
    """
    grad = mx.nd.ones(data.shape)
    executor = bind(symbol, mx.cpu(), {"data": mx.nd.array(data)}, {"data": grad}, options=options)
    for _ in range(2):
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.array(head + np.arange(out.size).reshape(out.shape))])
    (plan,) = executor._plans.values()
    steps = plan.compiled.program.steps
    kernels = [(step.kernel.name, step.is_backward) for step in steps if step.kernel is not None]
    return out.asnumpy(), grad.asnumpy(), kernels


def random(*shape: int) -> np.ndarray:
    return np.random.RandomState(3).uniform(0.5, 1.5, shape).astype(np.float32)


SUMS = {
    "rows": ((6, 200), (1,)),
    "short rows": ((300, 7), (1,)),
    "one row": ((1, 500), (1,)),
    "everything": ((3, 4, 5), ()),
    "everything, long": ((9, 80, 80), ()),
    "columns": ((30, 17), (0,)),
    "columns of several": ((5, 6, 40), (1,)),
    "few columns": ((5, 6, 2), (1,)),
    "first and last": ((4, 3, 50), (0, 2)),
    "alternate axes": ((3, 4, 5, 6, 7), (0, 2, 4)),
    "axes of one element": ((3, 1, 5, 1), (1, 2)),
    "neighbours": ((3, 4, 5, 6), (1, 2)),
    "longer than a stage": ((2, 3, 9000), (2,)),
}


@pytest.mark.parametrize("case", SUMS)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_and_their_gradients(name: str, keepdims: bool, case: str) -> None:
    shape, axes = SUMS[case]
    data = random(*shape)
    symbol = getattr(mx.sym, name)(X, axis=axes, keepdims=keepdims)
    out, grad, kernels = run(symbol, data)
    assert ("onednn:reduction", False) in kernels
    assert (("onednn:reduction_backward", True) in kernels) == (out.size > 1)
    over = axes or tuple(range(len(shape)))
    wanted = getattr(np, name)(data.astype(np.float64), axis=over, keepdims=True)
    np.testing.assert_allclose(out.ravel(), wanted.ravel(), rtol=2e-6)
    share = 1 if name == "sum" else wanted.size / data.size
    spread = np.broadcast_to(share * np.arange(wanted.size).reshape(wanted.shape), shape)
    np.testing.assert_allclose(grad, spread, rtol=2e-6)
    run(symbol, data, options=CHECKED)


@pytest.mark.parametrize("name", ["max", "min", "prod"])
@pytest.mark.parametrize(("shape", "axes"), [((4, 5, 6), (1, 2)), ((3, 100), (1,)), ((33,), ())])
def test_extremes_and_products_of_rows(name: str, shape: Any, axes: Any) -> None:
    data = random(*shape)
    symbol = getattr(mx.sym, name)(X, axis=axes)
    out, _, kernels = run(symbol, data, 1.0)
    assert ("onednn:reduction", False) in kernels
    wanted = getattr(np, name)(data.astype(np.float64), axis=axes or None)
    np.testing.assert_allclose(out.ravel(), np.ravel(wanted), rtol=2e-5)
    run(symbol, data, 1.0, options=CHECKED)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_rows_with_infinity_or_not_a_number(name: str) -> None:
    data = random(6, 40)
    data[1, 3], data[2, 39], data[3, 0], data[4, 17] = np.nan, np.inf, np.nan, -np.inf
    symbol = getattr(mx.sym, name)(X, axis=1)
    out, _, kernels = run(symbol, data)
    assert ("onednn:reduction", False) in kernels
    np.testing.assert_array_equal(out, getattr(data, name)(axis=1))


@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 5, 60), (1, 2)), ((300, 3), (1,)), ((7, 9), ()), ((2, 12345), (1,))]
)
def test_norms_of_rows_match_float64(shape: Any, axes: Any) -> None:
    data = random(*shape)
    symbol = mx.sym.norm(X, axis=axes)
    out, _, kernels = run(symbol, data, 1.0)
    assert ("onednn:norm", False) in kernels
    wanted = np.sqrt(np.square(data.astype(np.float64)).sum(axis=axes or None))
    np.testing.assert_allclose(out.ravel(), np.ravel(wanted), rtol=2e-6)
    run(symbol, data, 1.0, options=CHECKED)


def test_long_sums_keep_their_precision() -> None:
    data = np.full((16, 100, 1000), 0.1, np.float32)
    out, _, kernels = run(mx.sym.sum(X), data)
    assert ("onednn:reduction", False) in kernels
    np.testing.assert_allclose(out, data.astype(np.float64).sum(), rtol=5e-6)


@pytest.mark.parametrize(
    "symbol",
    [mx.sym.sum(X), mx.sym.norm(X), mx.sym.norm(X, ord=1), mx.sym.max(X), mx.sym.sum(X, axis=1)],
    ids=["sum", "norm", "magnitudes", "max", "nothing"],
)
def test_reductions_without_a_kernel_run_on_the_reference(symbol: Any) -> None:
    """A row of prime length, which cannot be split, with one element per column."""
    assert run(symbol, random(10007, 1))[2] == []


def test_reduction_stages_start_at_the_last_axes() -> None:
    assert stages_of((2, 3, 4, 5), (1, 2)) == [Stage(2, 12, 5)]
    assert stages_of((2, 3, 1, 5), (0, 3)) == [Stage(6, 5, 1), Stage(1, 2, 3)]
    assert stages_of((2, 1, 5), (1,)) == []
