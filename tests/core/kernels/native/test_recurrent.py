"""LSTM and GRU by the kernel in C against the operator's reference, which is tested against
MXNet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from core.kernels.native import is_available
from core.kernels.onednn import library
from core.types import Array

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

KERNEL = "native:rnn"


def network(mode: str, hidden: int, layers: int = 1, **attributes: Any) -> Any:
    states = [mx.sym.var("state")] + [mx.sym.var("memory")] * (mode == "lstm")
    operands = (mx.sym.var("data"), mx.sym.var("parameters"), *states)
    return mx.sym.RNN(
        *operands, mode=mode, num_layers=layers, state_size=hidden, name="rnn", **attributes
    )


def arrays_of(symbol: Any, data: tuple[int, int, int], scale: float = 0.4) -> dict[str, Any]:
    random = np.random.RandomState(5)
    shapes, _, _ = symbol.infer_shape(data=data)
    named = sorted(zip(symbol.list_arguments(), shapes, strict=True))
    return {name: mx.nd.array(random.uniform(-scale, scale, shape)) for name, shape in named}


def kernels_of(executor: Any) -> set[str]:
    steps = executor._last.compiled.program.steps
    return {step.kernel.name for step in steps if step.kernel is not None}


def bound(symbol: Any, arrays: Mapping[str, Any]) -> Any:
    """Return an executor that knows when its arrays change."""
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=arrays["data"].shape)
    executor.copy_params_from(arrays)
    return executor


def computed(symbol: Any, arrays: Mapping[str, Any]) -> list[Array]:
    """Return the outputs in inference, after a check that the kernel ran."""
    executor = bound(symbol, arrays)
    outputs = [one.asnumpy() for one in executor.forward()]
    assert kernels_of(executor) == {KERNEL}
    return outputs


def reference(symbol: Any, arrays: Mapping[str, Any]) -> list[Array]:
    """Return the outputs that the operators' references compute."""
    options = CompileOptions(table=None)
    executor = bind(symbol, mx.cpu(), dict(arrays), options=options)
    outputs = [one.asnumpy() for one in executor.forward()]
    assert not kernels_of(executor)
    return outputs


def assert_equal(got: list[Array], expected: list[Array]) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("state_outputs", [False, True])
def test_layers_directions_and_states_match_the_reference(
    mode: str, bidirectional: bool, layers: int, state_outputs: bool
) -> None:
    symbol = network(
        mode, 6, layers, bidirectional=bidirectional, state_outputs=state_outputs, p=0.5
    )
    arrays = arrays_of(symbol, (5, 3, 4))
    assert_equal(computed(symbol, arrays), reference(symbol, arrays))


@pytest.mark.parametrize("mode", ["lstm", "gru"])
@pytest.mark.parametrize("hidden", [1, 16, 33])
@pytest.mark.parametrize("batch", [1, 2, 4, 5, 6, 7, 14])
def test_any_number_of_units_and_rows_matches_the_reference(
    mode: str, hidden: int, batch: int
) -> None:
    symbol = network(mode, hidden, bidirectional=True, state_outputs=True)
    arrays = arrays_of(symbol, (4, batch, 19))
    assert_equal(computed(symbol, arrays), reference(symbol, arrays))


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_sequences_of_one_step_match_the_reference(mode: str) -> None:
    symbol = network(mode, 20, state_outputs=True)
    arrays = arrays_of(symbol, (1, 2, 3))
    assert_equal(computed(symbol, arrays), reference(symbol, arrays))


@pytest.mark.parametrize("mode", ["lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_threads_share_the_units(mode: str, bidirectional: bool) -> None:
    api = library()
    assert api is not None
    symbol = network(mode, 150, 2, bidirectional=bidirectional, state_outputs=True)
    arrays, before, found = arrays_of(symbol, (9, 3, 40), 0.1), api.threads(), []
    try:
        for threads in (1, 3):
            api.set_threads(threads)
            found.append(computed(symbol, arrays))
    finally:
        api.set_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert_equal(found[0], reference(symbol, arrays))


@pytest.mark.parametrize("mode", ["lstm", "gru"])
@pytest.mark.parametrize("value", [1e-6, 100.0, np.inf, -np.inf, np.nan])
def test_tiny_large_infinite_and_nan_values(mode: str, value: float) -> None:
    symbol = network(mode, 7, state_outputs=True)
    arrays = arrays_of(symbol, (3, 2, 5), 1e-3 if value == 1e-6 else 0.4)
    if value != 1e-6:
        arrays["data"][1, 0, 2] = value
    with np.errstate(all="ignore"):
        expected = reference(symbol, arrays)
    for one, other in zip(computed(symbol, arrays), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9 if value == 1e-6 else 1e-6)


def test_changed_parameters_are_used() -> None:
    symbol = network("lstm", 6)
    arrays = arrays_of(symbol, (3, 2, 4))
    executor = bound(symbol, arrays)
    executor.forward()
    arrays["parameters"] *= 2
    executor.copy_params_from(arrays)
    outputs = [one.asnumpy() for one in executor.forward()]
    assert_equal(outputs, reference(symbol, arrays))


@pytest.mark.parametrize("cell", [mx.rnn.LSTMCell, mx.rnn.GRUCell])
def test_unrolled_cells_run_on_the_kernel(cell: Any) -> None:
    output, _ = cell(20, prefix="cell_").unroll(
        6, mx.sym.var("data"), layout="NTC", merge_outputs=True
    )
    random = np.random.RandomState(2)
    shapes, _, _ = output.infer_shape(data=(3, 6, 8))
    arrays = {
        name: mx.nd.array(random.uniform(-0.5, 0.5, shape))
        for name, shape in zip(output.list_arguments(), shapes, strict=True)
    }
    executor = bound(output, arrays)
    (found,) = executor.forward()
    assert KERNEL in kernels_of(executor)
    assert_equal([found.asnumpy()], reference(output, arrays))


def test_training_and_other_cells_are_left_to_onednn() -> None:
    for symbol, is_train in ((network("lstm", 4), True), (network("rnn_tanh", 4), False)):
        executor = bound(symbol, arrays_of(symbol, (3, 2, 4)))
        executor.forward(is_train=is_train)
        assert KERNEL not in kernels_of(executor)
