"""Gradients of a tensor plus or minus a repeated one, against numpy's sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.backends.onednn import is_available
from core.executor import bind
from core.executor.compile import CompileOptions

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

KERNEL = "onednn:add_backward"
Request = dict[str, str]
SHAPES = {
    "bias": ((5, 7, 40), (40,)),
    "bias_of_rows": ((6, 9), (6, 1)),
    "channels": ((2, 3, 4, 5), (1, 3, 1, 1)),
    "one_number": ((4, 6), (1,)),
    "middle": ((3, 8, 5), (3, 1, 5)),
    "two_places": ((3, 4, 5, 6), (1, 4, 1, 6)),
}


def gradients(
    name: str, wide: Any, narrow: Any, request: Request, options: CompileOptions | None = None
) -> tuple[np.ndarray, dict[str, np.ndarray], list[str]]:
    """Return the output's gradient, those of the inputs, which were 1, and the kernels."""
    random = np.random.RandomState(2)
    symbol = getattr(mx.sym, name)(mx.sym.Variable("a"), mx.sym.Variable("b"))
    arrays = {"a": mx.nd.array(random.randn(*wide)), "b": mx.nd.array(random.randn(*narrow))}
    found = {key: mx.nd.ones(one.shape) for key, one in arrays.items()}
    executor = bind(symbol, mx.cpu(), arrays, found, request, options=options)
    (out,) = executor.forward(is_train=True)
    head = random.randn(*out.shape).astype(np.float32)
    executor.backward([mx.nd.array(head)])
    (plan,) = executor._plans.values()
    kernels = [step.kernel.name for step in plan.compiled.program.steps if step.kernel is not None]
    return head, {key: one.asnumpy() for key, one in found.items()}, kernels


def sum_to(head: np.ndarray, shape: Any) -> np.ndarray:
    aligned = (1,) * (head.ndim - len(shape)) + tuple(shape)
    axes = tuple(i for i, size in enumerate(aligned) if size == 1)
    return head.astype(np.float64).sum(axis=axes, keepdims=True).reshape(shape)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("request_a", ["write", "add", "null"])
@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("name", ["broadcast_add", "broadcast_sub"])
def test_gradients_of_both(name: str, case: str, request_a: str, check: bool) -> None:
    wide, narrow = SHAPES[case]
    request = {"a": request_a, "b": "write"}
    head, found, kernels = gradients(
        name, wide, narrow, request, CompileOptions(check_kernels=check)
    )
    assert KERNEL in kernels
    sign = -1 if name == "broadcast_sub" else 1
    np.testing.assert_allclose(found["b"], sign * sum_to(head, narrow), rtol=1e-4, atol=1e-5)
    wanted = {"write": head, "add": head + 1, "null": np.ones(wide)}[request_a]
    np.testing.assert_allclose(found["a"], wanted, rtol=1e-6)


def test_wide_tensor_may_stand_on_the_right_of_a_sum() -> None:
    head, found, kernels = gradients("broadcast_add", (1, 7), (5, 7), {"a": "add", "b": "write"})
    assert KERNEL in kernels
    np.testing.assert_allclose(found["a"], 1 + sum_to(head, (1, 7)), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["b"], head)


@pytest.mark.parametrize(
    ("name", "shapes", "requests"),
    [
        ("broadcast_sub", ((1, 7), (5, 7)), {"a": "write", "b": "write"}),
        ("broadcast_add", ((5, 1), (1, 7)), {"a": "write", "b": "write"}),
        ("broadcast_add", ((5, 7), (1, 7)), {"a": "write", "b": "null"}),
    ],
    ids=["difference_from_the_right", "both_repeated", "nothing_to_add_up"],
)
def test_the_rest_runs_on_the_reference(name: str, shapes: Any, requests: Request) -> None:
    head, found, kernels = gradients(name, *shapes, requests)
    assert KERNEL not in kernels
    np.testing.assert_allclose(found["a"], sum_to(head, shapes[0]), rtol=1e-5, atol=1e-5)
