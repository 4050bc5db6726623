"""Fully connected layers in training by the kernel in C, against products in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.executor import Executor, bind
from core.kernels.native import gemm, is_available
from core.types import Array

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

FORWARD, BACKWARD = "native:gemm", "native:gemm_backward"
SIZES = [
    (16, 16, 1),  # smallest
    (17, 17, 5),
    (64, 784, 128),
    (64, 64, 10),
    (33, 51, 37),  # no whole panels
    (100, 131, 130),  # data in panels of each width
    (130, 35, 300),
    (20, 530, 270),  # several blocks of inputs and of outputs
]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of bands; the layers are small enough for one, were a thread not worth it."""
    monkeypatch.setattr(gemm, "threads", lambda: request.param)
    monkeypatch.setattr(gemm, "_PIECE", 1)
    monkeypatch.setattr(gemm, "_SMALL", 1 << 40)
    return int(request.param)


def bound(
    rows: int, inputs: int, outputs: int, grad_req: dict[str, str], *, has_bias: bool = True
) -> tuple[Executor, dict[str, Array]]:
    """Return a layer and what its arrays contain."""
    random = np.random.RandomState(rows + inputs + outputs)
    shapes = {"data": (rows, inputs), "fc_weight": (outputs, inputs), "fc_bias": (outputs,)}
    if not has_bias:
        del shapes["fc_bias"]
    symbol = mx.sym.FullyConnected(
        mx.sym.var("data"), num_hidden=outputs, no_bias=not has_bias, name="fc"
    )
    values = {name: random.randn(*shape).astype(np.float32) for name, shape in shapes.items()}
    arrays = {name: mx.nd.array(one) for name, one in values.items()}
    grads = {name: mx.nd.ones(shapes[name]) for name in shapes}
    return bind(symbol, mx.cpu(), arrays, grads, grad_req), values


def kernels_of(executor: Executor) -> set[str]:
    plan: Any = executor._last
    return {step.kernel.name for step in plan.compiled.program.steps if step.kernel is not None}


def assert_close(found: Array, expected: Array) -> None:
    rms = np.sqrt(np.mean(expected**2))
    assert np.all(np.abs(found - expected) <= 1e-5 * (np.abs(expected) + rms))


def check(executor: Executor, values: dict[str, Array], grad_req: dict[str, str]) -> None:
    """Run both passes twice, so that values left from the first would show."""
    exact = {name: one.astype(np.float64) for name, one in values.items()}
    data, weight = exact["data"], exact["fc_weight"]
    grad = np.random.RandomState(0).randn(len(data), len(weight)).astype(np.float32)
    for _ in range(2):
        (out,) = executor.forward(is_train=True)
        assert_close(out.asnumpy(), data @ weight.T + exact.get("fc_bias", 0))
        executor.backward(mx.nd.array(grad))
    products = {
        "data": grad.astype(np.float64) @ weight,
        "fc_weight": grad.T.astype(np.float64) @ data,
        "fc_bias": grad.sum(0, dtype=np.float64),
    }
    for name in values:
        expected = {"write": products[name], "add": 1 + 2 * products[name]}
        found = executor.grad_dict[name]
        if grad_req[name] != "null":
            assert found is not None
            assert_close(found.asnumpy(), expected[grad_req[name]])


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_output_and_gradients(sizes: tuple[int, int, int], has_bias: bool, threads: int) -> None:
    grad_req = {"data": "write", "fc_weight": "write", "fc_bias": "write"}
    executor, values = bound(*sizes, grad_req, has_bias=has_bias)
    check(executor, values, grad_req)
    assert {FORWARD, BACKWARD} <= kernels_of(executor)


@pytest.mark.parametrize(
    "requests",
    [
        ("null", "write", "write"),
        ("write", "null", "null"),
        ("null", "null", "write"),
        ("null", "write", "null"),
        ("add", "add", "add"),
        ("add", "write", "null"),
    ],
)
def test_only_wanted_gradients_are_written(requests: tuple[str, ...], threads: int) -> None:
    grad_req = dict(zip(("data", "fc_weight", "fc_bias"), requests, strict=True))
    executor, values = bound(40, 83, 75, grad_req)
    check(executor, values, grad_req)
    assert BACKWARD in kernels_of(executor)


def test_all_axes_but_the_last_are_rows() -> None:
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=9, flatten=False, name="fc")
    random = np.random.RandomState(3)
    shapes = {"data": (4, 5, 40), "fc_weight": (9, 40), "fc_bias": (9,)}
    values = {name: random.randn(*shape).astype(np.float32) for name, shape in shapes.items()}
    arrays = {name: mx.nd.array(one) for name, one in values.items()}
    grads = {name: mx.nd.empty(shape) for name, shape in shapes.items()}
    executor = bind(symbol, mx.cpu(), arrays, grads)
    (out,) = executor.forward(is_train=True)
    assert FORWARD in kernels_of(executor)
    expected = values["data"].astype(np.float64) @ values["fc_weight"].T + values["fc_bias"]
    assert_close(out.asnumpy(), expected)
    executor.backward(mx.nd.ones(out.shape))
    data_grad = executor.grad_dict["data"]
    assert data_grad is not None
    row = values["fc_weight"].astype(np.float64).sum(0)
    assert_close(data_grad.asnumpy(), np.broadcast_to(row, shapes["data"]))


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ((7, 64, 64), {FORWARD, BACKWARD}),
        ((8, 64, 64), {FORWARD}),  # rows do not fill a register
        ((64, 15, 64), {FORWARD, BACKWARD}),  # nor do inputs
        ((600, 64, 64), {FORWARD, BACKWARD}),
        ((600, 64, 300), {BACKWARD}),
        ((128, 1024, 10), {FORWARD, BACKWARD}),  # one band, while a thread has nothing to do
    ],
)
def test_what_is_left_to_onednn(
    sizes: tuple[int, int, int], left: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemm, "threads", lambda: 2)
    grad_req = {"data": "write", "fc_weight": "write", "fc_bias": "write"}
    executor, values = bound(*sizes, grad_req)
    check(executor, values, grad_req)
    assert {FORWARD, BACKWARD} - kernels_of(executor) == left


def test_inference_is_left_to_onednn() -> None:
    grad_req = {"data": "write", "fc_weight": "write", "fc_bias": "write"}
    executor, _ = bound(64, 64, 64, grad_req)
    executor.forward(is_train=False)
    assert FORWARD not in kernels_of(executor)


def test_infinite_weights_do_not_reach_other_outputs() -> None:
    grad_req = {"data": "write", "fc_weight": "write", "fc_bias": "write"}
    executor, values = bound(20, 17, 6, grad_req)
    executor.arg_dict["fc_weight"][2] = np.inf
    (out,) = executor.forward(is_train=True)
    expected = values["data"].astype(np.float64) @ values["fc_weight"].T + values["fc_bias"]
    others = [0, 1, 3, 4, 5]
    assert_close(out.asnumpy()[:, others], expected[:, others])
