"""Recurrent kernels against the operator's reference, which is itself tested against MXNet."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.onednn import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

_REFERENCE = CompileOptions(table=None)
_STEPS, _BATCH, _INPUTS, _HIDDEN = 5, 3, 4, 6
_KERNELS = {"onednn:rnn", "onednn:rnn_backward"}


def network(mode: str, layers: int, **attributes: Any) -> mx.sym.Symbol:
    states = [mx.sym.Variable("state")]
    if mode == "lstm":
        states.append(mx.sym.Variable("memory"))
    if attributes.get("use_sequence_length"):
        attributes["sequence_length"] = mx.sym.Variable("lengths")
    return mx.sym.RNN(
        mx.sym.Variable("data"),
        mx.sym.Variable("parameters"),
        *states,
        mode=mode,
        num_layers=layers,
        state_size=_HIDDEN,
        name="rnn",
        **attributes,
    )


def run(
    symbol: mx.sym.Symbol,
    options: CompileOptions | None,
    requests: str | dict[str, str] = "write",
    is_train: bool = True,
    steps: int = 1,
) -> tuple[dict[str, np.ndarray], set[str]]:
    """Return outputs and gradients by name, and the kernels that ran."""
    random = np.random.RandomState(7)
    names = symbol.list_arguments()
    shapes, _, _ = symbol.infer_shape(data=(_STEPS, _BATCH, _INPUTS))
    arguments = {
        name: mx.nd.array(random.uniform(-0.4, 0.4, shape))
        for name, shape in sorted(zip(names, shapes, strict=True))
    }
    if "lengths" in arguments:
        arguments["lengths"][:] = mx.nd.array([5, 2, 3])
    if "lengths" in arguments and requests == "write":
        requests = {name: "null" if name == "lengths" else "write" for name in names}
    gradients = {name: mx.nd.ones(array.shape) for name, array in arguments.items()}
    executor = bind(symbol, mx.cpu(), arguments, gradients, requests, options=options)
    for _ in range(steps):
        outputs = executor.forward(is_train=is_train)
        found = {f"output{i}": one.asnumpy() for i, one in enumerate(outputs)}
        if is_train:
            executor.backward([mx.nd.array(random.randn(*one.shape)) for one in outputs])
            for name, gradient in executor.grad_dict.items():
                if gradient is not None:
                    found[name] = gradient.asnumpy()
    kernels = {
        step.kernel.name
        for plan in executor._plans.values()
        for step in plan.compiled.program.steps
        if step.kernel is not None
    }
    return found, kernels


def assert_equal(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert got.keys() == expected.keys()
    for name, wanted in expected.items():
        scale = max(float(np.abs(wanted).max()), 1e-6)
        np.testing.assert_allclose(got[name] / scale, wanted / scale, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("mode", "layers", "bidirectional", "state_outputs"),
    list(
        itertools.product(
            ("lstm", "gru", "rnn_tanh", "rnn_relu"), (1, 3), (False, True), (False, True)
        )
    ),
)
def test_training_equals_the_reference(
    mode: str, layers: int, bidirectional: bool, state_outputs: bool
) -> None:
    symbol = network(mode, layers, bidirectional=bidirectional, state_outputs=state_outputs)
    got, kernels = run(symbol, None)
    assert kernels >= _KERNELS
    expected, none = run(symbol, _REFERENCE)
    assert not none
    assert_equal(got, expected)


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_inference_equals_the_reference(mode: str, bidirectional: bool) -> None:
    symbol = network(mode, 2, bidirectional=bidirectional, state_outputs=True, p=0.5)
    got, _ = run(symbol, None, is_train=False)
    expected, _ = run(symbol, _REFERENCE, is_train=False)
    assert_equal(got, expected)


@pytest.mark.parametrize(
    "requests",
    [
        {"parameters": "write"},
        {"data": "write"},
        {"state": "write", "data": "add"},
        {"parameters": "add", "memory": "add"},
    ],
    ids=lambda given: "-".join(given),
)
def test_only_requested_gradients_are_written(requests: dict[str, str]) -> None:
    symbol = network("lstm", 2)
    requests = {name: requests.get(name, "null") for name in symbol.list_arguments()}
    got, kernels = run(symbol, None, requests)
    expected, _ = run(symbol, _REFERENCE, requests)
    assert kernels >= _KERNELS
    assert_equal(got, expected)


def test_repeated_steps_match_the_reference() -> None:
    symbol = network("gru", 2, bidirectional=True)
    got, _ = run(symbol, None, steps=3)
    expected, _ = run(symbol, _REFERENCE, steps=3)
    assert_equal(got, expected)


@pytest.mark.parametrize(
    "attributes", [{"use_sequence_length": True}, {"p": 0.5}], ids=["lengths", "dropout"]
)
def test_layers_onednn_does_not_support_run_on_the_reference(attributes: dict[str, Any]) -> None:
    _, kernels = run(network("lstm", 2, **attributes), None)
    assert not kernels & _KERNELS


def test_float64_is_left_to_the_reference() -> None:
    symbol = network("lstm", 1)
    executor = symbol.simple_bind(
        mx.cpu(),
        data=(_STEPS, _BATCH, _INPUTS),
        type_dict=dict.fromkeys(symbol.list_arguments(), "float64"),
    )
    executor.forward(is_train=True)
    assert "onednn:rnn" not in executor.debug_str()
