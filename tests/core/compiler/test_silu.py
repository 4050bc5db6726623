"""Which chains of elementwise operators are fused into a gate, and that results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.compiler.silu import Silu
from core.executor import bind
from core.kernels.onednn import is_available
from core.ops import Run

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

SHAPE = (2, 5, 3, 4)
X = mx.sym.Variable("data")
SHIFTED = mx.sym.clip(X + 3, 0, 6)

GATES = {
    "swish": X * mx.sym.sigmoid(X),
    "swish_by_activation": mx.sym.Activation(X, act_type="sigmoid") * X,
    "hard_sigmoid": SHIFTED / 6,
    "hard_sigmoid_by_factor": SHIFTED * (1 / 6),
    "another_hard_sigmoid": mx.sym.clip(X - 0.5, 0, 2) / 2,
    "hard_swish": X * (SHIFTED / 6),
    "hard_swish_divided_last": X * SHIFTED / 6,
    "hard_swish_from_the_left": (SHIFTED / 6) * X,
}
OTHERS = {
    "another_width": SHIFTED / 5,
    "another_bound": mx.sym.clip(X + 3, 1, 6) / 6,
    "another_factor": X * mx.sym.sigmoid(X + 1),
    "not_divided": X * SHIFTED,
    "seen_by_another": mx.sym.Group([X * (SHIFTED / 6), SHIFTED]),
}


def executor_of(symbol, options=None):
    random = np.random.RandomState(2)
    data = random.uniform(-6, 6, SHAPE).astype(np.float32)
    gradient = mx.nd.zeros(SHAPE)
    executor = bind(
        symbol, mx.cpu(), {"data": mx.nd.array(data)}, {"data": gradient}, options=options
    )
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.array(random.randn(*SHAPE)) for _ in outputs])
    return executor


def gates(executor):
    (plan,) = executor._plans.values()
    return [step for step in plan.compiled.program.forward_steps if isinstance(step.op, Silu)]


def assert_equal_to_references(symbol):
    executor, expected = executor_of(symbol), executor_of(symbol, CompileOptions(table=None))
    for got, wanted in zip(executor.outputs, expected.outputs, strict=True):
        np.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-5)
    got, wanted = (one.grad_dict["data"].asnumpy() for one in (executor, expected))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    executor_of(symbol, CompileOptions(check_kernels=True))


@pytest.mark.parametrize("case", GATES)
def test_swish_like_chains_become_a_gate(case):
    executor = executor_of(GATES[case])
    (step,) = gates(executor)
    assert step.kernel is not None
    assert_equal_to_references(GATES[case])


@pytest.mark.parametrize("case", OTHERS)
def test_other_chains_do_not(case):
    assert gates(executor_of(OTHERS[case])) == []
    assert_equal_to_references(OTHERS[case])


@pytest.mark.parametrize("case", GATES)
def test_a_convolution_fuses_a_gate(case):
    convolution = mx.sym.Convolution(X, kernel=(1, 1), num_filter=5, name="c")
    symbol = GATES[case](data=convolution, name="gate")
    arrays = {
        name: mx.nd.array(np.random.RandomState(4).uniform(-2, 2, shape))
        for name, shape in zip(
            symbol.list_arguments(), symbol.infer_shape(data=SHAPE)[0], strict=True
        )
    }
    results = []
    for options in (None, CompileOptions(table=None)):
        executor = bind(symbol, mx.cpu(), arrays, options=options)
        results.append(executor.forward()[0].asnumpy())
        (plan,) = executor._plans.values()
        layers = [s for s in plan.compiled.program.steps if s.op.names[0] != "_plan_reorder"]
        assert (len(layers) == 1) == (options is None)
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "gate",
    [
        Silu(is_hard=False, multiplies=True),
        Silu(is_hard=True, multiplies=False, shift=3, width=6),
        Silu(is_hard=True, multiplies=True, shift=3, width=6),
    ],
    ids=["swish", "hard_sigmoid", "hard_swish"],
)
def test_the_references_gradient_is_its_derivative(gate):
    data = np.array([-4.0, -2.9, -1.0, 0.0, 0.5, 2.9, 3.5])
    run = Run(np, True, None, np.empty)
    step, head = 1e-6, np.arange(1.0, 8.0)
    (left, right), slope = np.empty((2, data.size)), np.empty(data.size)
    gate.forward(run, [data - step], [left])
    gate.forward(run, [data + step], [right])
    gate.backward(run, [head], [data], [left], [slope])
    np.testing.assert_allclose(slope, head * (right - left) / (2 * step), rtol=1e-6, atol=1e-8)
