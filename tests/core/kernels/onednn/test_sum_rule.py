"""Gradients of broadcast addition, subtraction, multiplication, and of broadcasting alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

Request = dict[str, str]
SHAPES = {
    "bias": ((5, 7, 40), (40,)),
    "bias_of_rows": ((6, 9), (6, 1)),
    "channels": ((2, 3, 4, 5), (1, 3, 1, 1)),
    "one_number": ((4, 6), (1,)),
    "middle": ((3, 8, 5), (3, 1, 5)),
    "places": ((2, 6, 4, 3), (2, 1, 4, 3)),
    "two_places": ((3, 4, 5, 6), (1, 4, 5, 1)),
}
KERNELS = {
    "broadcast_add": "onednn:add_backward",
    "broadcast_sub": "onednn:add_backward",
    "broadcast_mul": "onednn:scale_backward",
    "broadcast_div": "onednn:scale_backward",
}
Arrays = dict[str, np.ndarray]


def gradients(
    symbol: Any, shapes: dict[str, Any], request: Request, options: CompileOptions | None = None
) -> tuple[Arrays, np.ndarray, Arrays, list[str]]:
    """Return the inputs, the head gradient, the inputs' gradients (initially 1) and the backward
    kernels."""
    random = np.random.RandomState(2)
    raw = {
        name: (np.sign(random.randn(*shape)) * random.uniform(0.5, 2, shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    arrays = {name: mx.nd.array(one) for name, one in raw.items()}
    found = {name: mx.nd.ones(one.shape) for name, one in arrays.items()}
    executor = bind(symbol, mx.cpu(), arrays, found, request, options=options)
    (out,) = executor.forward(is_train=True)
    head = random.randn(*out.shape).astype(np.float32)
    executor.backward([mx.nd.array(head)])
    (plan,) = executor._plans.values()
    steps = plan.compiled.program.backward_steps
    kernels = [step.kernel.name for step in steps if step.kernel is not None]
    return raw, head, {key: one.asnumpy() for key, one in found.items()}, kernels


def binary(name: str) -> Any:
    return getattr(mx.sym, name)(mx.sym.Variable("a"), mx.sym.Variable("b"))


def sum_to(head: np.ndarray, shape: Any) -> np.ndarray:
    aligned = (1,) * (head.ndim - len(shape)) + tuple(shape)
    axes = tuple(i for i, size in enumerate(aligned) if size == 1)
    return head.astype(np.float64).sum(axis=axes, keepdims=True).reshape(shape)


def slopes(name: str, raw: Arrays) -> tuple[Any, Any]:
    """Return the derivatives with respect to the left and the right input."""
    if name == "broadcast_mul":
        return raw["b"], raw["a"]
    if name == "broadcast_div":
        return 1 / raw["b"], -raw["a"] / raw["b"] ** 2
    return 1, -1 if name == "broadcast_sub" else 1


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("request_b", ["write", "add"])
@pytest.mark.parametrize("request_a", ["write", "add"])
@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_both_inputs(
    name: str, case: str, request_a: str, request_b: str, check: bool
) -> None:
    wide, narrow = SHAPES[case]
    request = {"a": request_a, "b": request_b}
    raw, head, found, kernels = gradients(
        binary(name), {"a": wide, "b": narrow}, request, CompileOptions(check_kernels=check)
    )
    # oneDNN's product broadcasts along one contiguous group of axes only.
    is_known = case != "two_places" or name in ("broadcast_add", "broadcast_sub")
    assert (KERNELS[name] in kernels) == is_known
    left, right = slopes(name, raw)
    wanted = {"a": head * left, "b": sum_to(head * right, narrow)}
    for key, one in wanted.items():
        np.testing.assert_allclose(
            found[key], one + (request[key] == "add"), rtol=1e-4, atol=1e-5, err_msg=key
        )


@pytest.mark.parametrize("name", ["broadcast_add", "broadcast_mul"])
def test_the_larger_tensor_may_be_on_the_right(name: str) -> None:
    shapes, request = {"a": (1, 7), "b": (5, 7)}, {"a": "add", "b": "write"}
    raw, head, found, kernels = gradients(binary(name), shapes, request)
    assert KERNELS[name] in kernels
    left, right = slopes(name, raw)
    np.testing.assert_allclose(found["a"], 1 + sum_to(head * left, (1, 7)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["b"], head * right, rtol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_only_the_larger_tensor_needs_a_gradient(name: str) -> None:
    shapes, request = {"a": (5, 7), "b": (1, 7)}, {"a": "write", "b": "null"}
    raw, head, found, kernels = gradients(binary(name), shapes, request)
    assert (KERNELS[name] in kernels) == (name in ("broadcast_mul", "broadcast_div"))
    np.testing.assert_allclose(found["a"], head * slopes(name, raw)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("broadcast_sub", (1, 7), (5, 7)),
        ("broadcast_add", (5, 1), (1, 7)),
        ("broadcast_mul", (5, 1), (1, 7)),
        ("broadcast_div", (1, 7), (5, 7)),
    ],
)
def test_unsupported_broadcasts_run_on_the_reference(name: str, a: Any, b: Any) -> None:
    request = {"a": "write", "b": "write"}
    raw, head, found, kernels = gradients(binary(name), {"a": a, "b": b}, request)
    assert kernels == []
    left, right = slopes(name, raw)
    np.testing.assert_allclose(found["a"], sum_to(head * left, a), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["b"], sum_to(head * right, b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("requests", [("write", "add"), ("add", "null"), ("null", "write")])
def test_division_of_equal_shapes(requests: tuple[str, str], check: bool) -> None:
    symbol = mx.sym.elemwise_div(mx.sym.Variable("a"), mx.sym.Variable("b"))
    request = dict(zip(("a", "b"), requests, strict=True))
    options = CompileOptions(check_kernels=check)
    raw, head, found, kernels = gradients(symbol, {"a": (4, 5), "b": (4, 5)}, request, options)
    assert "onednn:divide_backward" in kernels
    wanted = {"a": head / raw["b"], "b": -head * raw["a"] / raw["b"] ** 2}
    for name, kind in request.items():
        one = {"write": wanted[name], "add": wanted[name] + 1, "null": np.ones((4, 5))}[kind]
        np.testing.assert_allclose(found[name], one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("case", [name for name in SHAPES if name not in ("bias", "one_number")])
def test_broadcast_to_and_its_gradient_run_on_kernels(case: str, check: bool) -> None:
    wide, narrow = SHAPES[case]
    symbol = mx.sym.broadcast_to(mx.sym.Variable("a"), shape=wide)
    options = CompileOptions(check_kernels=check)
    raw, head, found, kernels = gradients(symbol, {"a": narrow}, {"a": "write"}, options)
    assert kernels == ["onednn:repeat_backward"]
    np.testing.assert_allclose(found["a"], sum_to(head, narrow), rtol=1e-4, atol=1e-5)
    executor = bind(symbol, mx.cpu(), {"a": mx.nd.array(raw["a"])}, options=options)
    out = executor.forward()[0].asnumpy()
    np.testing.assert_array_equal(out, np.broadcast_to(raw["a"], wide))
    (plan,) = executor._plans.values()
    assert [step.kernel.name for step in plan.compiled.program.steps] == ["onednn:repeat"]


def test_broadcasting_one_number_runs_on_the_reference() -> None:
    symbol = mx.sym.broadcast_to(mx.sym.Variable("a"), shape=(40, 30))
    executor = bind(symbol, mx.cpu(), {"a": mx.nd.array([[2.5]])})
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), np.full((40, 30), 2.5))
    (plan,) = executor._plans.values()
    assert [step.kernel for step in plan.compiled.program.steps] == [None]
