"""L2 normalization against NumPy in float64; test_between_convolutions covers images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

KERNEL = "onednn:l2_normalization"
EPS = 0.01


def run(shape: Any, mode: str, options: CompileOptions | None = None) -> tuple[Any, ...]:
    """Return data, head gradient, output, gradient and the kernels, after two steps."""
    random = np.random.RandomState(4)
    data, head = (random.randn(*shape).astype(np.float32) for _ in range(2))
    symbol = mx.sym.L2Normalization(mx.sym.Variable("data"), mode=mode, eps=EPS)
    grad = mx.nd.ones(shape)
    executor = bind(symbol, mx.cpu(), {"data": mx.nd.array(data)}, {"data": grad}, options=options)
    for _ in range(2):
        (out,) = executor.forward(is_train=True)
        executor.backward([mx.nd.array(head)])
    (plan,) = executor._plans.values()
    kernels = [step.kernel.name for step in plan.compiled.program.steps if step.kernel is not None]
    return data, head, out.asnumpy(), grad.asnumpy(), kernels


AXES = {"instance": (1, 2, 3), "channel": (1,), "spatial": (2, 3)}


@pytest.mark.parametrize("shape", [(3, 5, 4, 7), (1, 33, 2, 1), (2, 1, 9, 9), (4, 20, 30, 11)])
@pytest.mark.parametrize("mode", AXES)
def test_output_and_gradient_match_float64(mode: str, shape: Any) -> None:
    data, head, out, grad, kernels = run(shape, mode)
    assert kernels == [KERNEL, f"{KERNEL}_backward"]
    data, head = data.astype(np.float64), head.astype(np.float64)
    length = np.sqrt(np.square(data).sum(axis=AXES[mode], keepdims=True) + EPS)
    unit = data / length
    np.testing.assert_allclose(out, unit, rtol=1e-5, atol=1e-6)
    along = (head * unit).sum(axis=AXES[mode], keepdims=True)
    np.testing.assert_allclose(grad, (head - unit * along) / length, rtol=1e-4, atol=1e-5)
    run(shape, mode, CompileOptions(check_kernels=True))


def test_samples_of_large_prime_length_run_on_the_reference() -> None:
    data, _, out, _, kernels = run((2, 10007), "instance")
    assert kernels == []
    length = np.sqrt(np.square(data.astype(np.float64)).sum(axis=1, keepdims=True) + EPS)
    np.testing.assert_allclose(out, data / length, rtol=1e-5)
