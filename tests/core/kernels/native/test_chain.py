"""Chains: consecutive oneDNN primitives that run as one call."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import core as mx
from core.backends.numpy import NumpyBackend
from core.errors import KernelError
from core.executor import bind
from core.kernels.native import chain as native_chain
from core.kernels.native import is_available
from core.kernels.onednn import library
from core.kernels.onednn.primitive import primitives_of

pytestmark = pytest.mark.skipif(not is_available(), reason="the kernels are not compiled")

RANDOM = np.random.RandomState(11)
INPUTS = {
    name: RANDOM.uniform(-1, 1, shape).astype(np.float32)
    for name, shape in {
        "data": (1, 40),
        "light_weight": (30, 40),
        "light_bias": (30,),
        "heavy_weight": (9000, 30),
        "heavy_bias": (9000,),
        "last_weight": (5, 9000),
        "last_bias": (5,),
    }.items()
}


def perceptron() -> Any:
    """Return a graph of three primitives; only the second uses all threads."""
    symbol = mx.sym.var("data")
    for name, count in {"light": 30, "heavy": 9000, "last": 5}.items():
        symbol = mx.sym.FullyConnected(symbol, num_hidden=count, name=name)
        symbol = mx.sym.Activation(symbol, act_type="tanh", name=f"{name}_tanh")
    return symbol


def expected() -> np.ndarray:
    found = INPUTS["data"].astype(np.float64)
    for name in ("light", "heavy", "last"):
        found = np.tanh(
            found @ INPUTS[f"{name}_weight"].T.astype(np.float64) + INPUTS[f"{name}_bias"]
        )
    return found


def bound() -> Any:
    return bind(perceptron(), mx.cpu(), {name: mx.nd.array(one) for name, one in INPUTS.items()})


def bound_for_training() -> Any:
    arrays = {name: mx.nd.array(one) for name, one in INPUTS.items()}
    gradients = {name: mx.nd.zeros(one.shape) for name, one in INPUTS.items()}
    return bind(perceptron(), mx.cpu(), arrays, gradients)


def plan_of(executor: Any) -> Any:
    (plan,) = executor._plans.values()
    return plan


def chains_of(executor: Any) -> list[int]:
    return [chain.count for chain in plan_of(executor)._forward.chains]


def test_consecutive_primitives_run_as_one_call() -> None:
    executor = bound()
    gc.collect()
    for _ in range(2):
        (out,) = executor.forward()
    assert chains_of(executor) == [3]
    np.testing.assert_allclose(out.asnumpy(), expected(), rtol=1e-5, atol=1e-6)


def test_a_step_in_python_splits_a_chain() -> None:
    data = mx.sym.var("data")
    heads = mx.sym.FullyConnected(
        mx.sym.round(mx.sym.FullyConnected(data, num_hidden=3, name="a")), num_hidden=3, name="b"
    )
    shapes = {"a_weight": (3, 4), "a_bias": (3,), "b_weight": (3, 3), "b_bias": (3,)}
    arrays = {name: mx.nd.ones(shape) for name, shape in shapes.items()}
    executor = bind(heads, mx.cpu(), {"data": mx.nd.ones((2, 4)), **arrays})
    (out,) = executor.forward()
    assert chains_of(executor) == [1, 1, 1]
    assert out.asnumpy().tolist() == [[16.0] * 3] * 2


@pytest.mark.parametrize("has_python", [False, True])
def test_overflow_raises_no_warning(has_python: bool) -> None:
    layer = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=1, no_bias=True, name="fc")
    # cosh runs in NumPy, which warns unless told not to; oneDNN never does.
    head = mx.sym.cosh(layer) if has_python else layer
    large = mx.nd.array([[1e30]])
    executor = bind(head, mx.cpu(), {"x": large, "fc_weight": large})
    with np.errstate(all="raise"):
        assert executor.forward()[0].asscalar() == np.inf
    assert plan_of(executor)._forward.needs_scope is has_python


@pytest.mark.parametrize("threads", [1, 2])
def test_the_thread_count_is_restored(threads: int) -> None:
    api = library()
    assert api is not None
    before = api.threads()
    api.set_threads(threads)
    try:
        bound().forward()
        assert api.threads() == threads
    finally:
        api.set_threads(before)


def test_a_step_of_several_primitives_joins_a_chain() -> None:
    executor = bound_for_training()
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((1, 5)))
    backward = plan_of(executor)._backward
    assert [chain.count for chain in backward.chains] == [len(backward.steps)] == [6]
    assert sum(len(primitives_of(call)) for call in backward.calls) == 9


@pytest.mark.parametrize("spoiled", range(6))
def test_a_failing_step_of_several_primitives_is_named(
    spoiled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(backend: object, calls: Sequence[Callable[[], Any]]) -> Any:
        if len(primitives_of(calls[-1])) == 2:  # the backward pass
            last = primitives_of(calls[spoiled])[-1]
            no_primitive = SimpleNamespace(handle=None, is_light=True)
            monkeypatch.setattr(last, "primitive", no_primitive)
        return native_chain.chained(calls)

    executor = bound_for_training()
    executor.forward(is_train=True)
    monkeypatch.setattr(NumpyBackend, "chained", spoil)
    plan_of(executor)._lower()
    executor.forward(is_train=True)
    with pytest.raises(KernelError) as caught:
        executor.backward(mx.nd.ones((1, 5)))
    (note,) = caught.value.__notes__
    assert str(plan_of(executor)._backward.steps[spoiled]) in note


@pytest.mark.parametrize(("spoiled", "name"), [(0, "light"), (1, "heavy"), (2, "last")])
def test_a_failing_step_is_named(spoiled: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(backend: object, calls: Sequence[Callable[[], Any]]) -> Any:
        if calls:
            no_primitive = SimpleNamespace(handle=None, is_light=True)
            monkeypatch.setattr(calls[spoiled], "primitive", no_primitive)
        return native_chain.chained(calls)

    api = library()
    assert api is not None
    before = api.threads()
    monkeypatch.setattr(NumpyBackend, "chained", spoil)
    with pytest.raises(KernelError, match=r"status 2") as caught:
        bound().forward()
    (note,) = caught.value.__notes__
    assert note.startswith("while running")
    assert f"'{name}" in note
    assert api.threads() == before


def test_without_the_compiled_library_each_primitive_is_called_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_chain, "library", lambda: None)
    executor = bound()
    (out,) = executor.forward()
    assert chains_of(executor) == [1, 1, 1]
    np.testing.assert_allclose(out.asnumpy(), expected(), rtol=1e-5, atol=1e-6)


def test_timing_and_monitors_see_each_step() -> None:
    executor = bound()
    assert len(executor.timed_forward()) == 3
    seen: list[str] = []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward()
    assert [name for name in seen if "tanh" not in name] == [
        "light_output",
        "heavy_output",
        "last_output",
    ]
