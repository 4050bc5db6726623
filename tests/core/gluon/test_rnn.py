"""Gluon's recurrent layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.gluon import nn, rnn
from core.gluon.contrib import rnn as contrib_rnn
from oracle.compare import assert_close

X = np.random.RandomState(0).rand(3, 4, 5).astype(np.float32) - np.float32(0.5)

# Results of MXNet 1.9.1 with weights of 1 and biases of 0: the sum of the outputs, and the sum of
# the gradients of (outputs ** 2).sum() plus the sum of the final states.
CASES: list[tuple[str, dict[str, Any], float, float]] = [
    ("LSTM", {}, 33.051136, 515.92),
    ("GRU", {"num_layers": 2}, 16.75808, 0),
    ("RNN", {"activation": "tanh", "bidirectional": True}, -0.7181473, 0),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "layout": "NTC"}, 86.42995, 0),
]


def _layers(kind: str, options: dict[str, Any], input_size: int, prefix: str = "x_") -> Any:
    layers = getattr(rnn, kind)(6, input_size=input_size, prefix=prefix, **options)
    layers.initialize(mx.init.One())
    return layers


@pytest.mark.parametrize(("kind", "options", "total", "gradients"), CASES)
@pytest.mark.parametrize("input_size", [0, 5])
@pytest.mark.parametrize("compiled", [False, True])
def test_outputs_states_and_gradients(
    kind: str,
    options: dict[str, Any],
    total: float,
    gradients: float,
    input_size: int,
    compiled: bool,
) -> None:
    layers = _layers(kind, options, input_size)
    layers.hybridize(compiled)
    x = mx.nd.array(X)
    outputs = layers(x)
    assert outputs.asnumpy().sum() == pytest.approx(total, rel=1e-5)
    begin = layers.begin_state(3 if options.get("layout") == "NTC" else 4)
    with mx.autograd.record():
        again, states = layers(x, begin)
        loss = (again * again).sum() + sum(state.sum() for state in states)
    loss.backward()
    np.testing.assert_allclose(again.asnumpy(), outputs.asnumpy(), rtol=1e-5, atol=1e-6)
    assert [state.shape for state in states] == [state.shape for state in begin]
    assert layers.l0_i2h_weight.shape[1] == 5
    if gradients:  # recorded with two decimals
        found = sum(one.grad().asnumpy().sum() for one in layers.collect_params().values())
        assert found == pytest.approx(gradients, abs=0.01)


@pytest.mark.parametrize("compiled", [False, True])
def test_recurrent_layers_inside_a_network(compiled: bool) -> None:
    net = nn.HybridSequential()
    net.add(rnn.LSTM(4, 2, bidirectional=True), nn.Dropout(0.1), nn.Dense(3, flatten=False))
    net.initialize()
    net.hybridize(compiled)
    assert net(mx.nd.ones((5, 2, 7))).shape == (5, 2, 3)


def test_parameter_names_in_files(tmp_path: Path) -> None:
    layers = _layers("GRU", {"bidirectional": True}, 5)
    places = {
        f"_unfused.0.{direction}_cell.{part}"
        for direction in "lr"
        for part in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")
    }
    path = str(tmp_path / "layers.params")
    layers.save_parameters(path)
    assert set(mx.nd.load(path)) == places
    other = rnn.GRU(6, bidirectional=True)
    other.load_parameters(path)
    x = mx.nd.array(X)
    np.testing.assert_array_equal(other(x).asnumpy(), layers(x).asnumpy())
    single = _layers("LSTM", {"num_layers": 2}, 5)
    single.save_parameters(path)
    assert "_unfused.1.h2h_bias" in mx.nd.load(path)


def test_more_than_ten_layers_have_different_names_in_files(tmp_path: Path) -> None:
    deep = rnn.GRU(2, num_layers=11, input_size=2)
    deep.initialize()
    deep.save_parameters(str(tmp_path / "deep.params"))
    saved = mx.nd.load(str(tmp_path / "deep.params"))
    assert len(saved) == len(deep.collect_params()) == 44
    assert "_unfused.10.i2h_weight" in saved
    other = rnn.GRU(2, num_layers=11, input_size=2)
    other.load_parameters(str(tmp_path / "deep.params"))
    x = mx.nd.ones((3, 1, 2))
    np.testing.assert_array_equal(other(x).asnumpy(), deep(x).asnumpy())


def test_valid_lengths_end_the_sequences() -> None:
    layers = _layers("LSTM", {"use_sequence_length": True}, 5)
    x = mx.nd.array(X)
    lengths = mx.nd.array([1, 2, 3, 3])
    outputs, states = layers(x, layers.begin_state(4), lengths)
    assert (outputs.asnumpy()[1:, 0] == 0).all()
    np.testing.assert_array_equal(outputs.asnumpy()[0, 0], states[0].asnumpy()[0, 0])
    np.testing.assert_array_equal(layers(x, sequence_length=lengths).asnumpy(), outputs.asnumpy())


def test_composition_as_a_symbol_and_repr() -> None:
    layers = rnn.LSTM(4, num_layers=2, input_size=3, prefix="q_", dropout=0.5, bidirectional=True)
    assert repr(layers) == "LSTM(3 -> 4, TNC, num_layers=2, dropout=0.5, bidirectional)"
    graph = layers(mx.sym.Variable("data"))
    shapes, outputs, _ = graph.infer_shape(data=(5, 2, 3))
    assert outputs == [(5, 2, 8)]
    found = dict(zip(graph.list_arguments(), shapes, strict=True))
    assert found["q_l1_i2h_weight"] == (16, 8)
    assert repr(rnn.GRU(4)) == "GRU(None -> 4, TNC)"


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(AssertionError, match="Invalid layout CTN"):
        rnn.LSTM(4, layout="CTN")
    layers = _layers("LSTM", {}, 5)
    with pytest.raises(ValueError, match=r"Expecting \(1, 4, 6\), got \(1, 3, 6\)"):
        layers(mx.nd.array(X), layers.begin_state(3))


def _projected_cells(layers: int, bidirectional: bool) -> Any:
    """Return the cells equivalent to projected layers; test_cells.py compares them with MXNet."""
    stack = rnn.HybridSequentialRNNCell(prefix="x_")
    with stack.name_scope():
        for layer in range(layers):
            cells = [
                contrib_rnn.LSTMPCell(6, 2, prefix=f"{side}{layer}_")
                for side in ("lr" if bidirectional else "l")
            ]
            stack.add(rnn.BidirectionalCell(*cells) if bidirectional else cells[0])
    return stack


@pytest.mark.parametrize(
    ("layers", "bidirectional", "compiled"),
    [(1, False, False), (3, False, True), (2, True, False), (1, True, True)],
)
def test_projected_layers_match_their_cells(
    layers: int, bidirectional: bool, compiled: bool
) -> None:
    options = {"num_layers": layers, "bidirectional": bidirectional, "projection_size": 2}
    fused = _layers("LSTM", options, 0)
    fused.hybridize(compiled)
    cells = _projected_cells(layers, bidirectional)
    cells.initialize()
    x, begin = mx.nd.array(X), fused.begin_state(4)
    fused(x, begin)
    cells.unroll(3, x, layout="TNC")
    random = np.random.RandomState(1)
    assert set(fused.collect_params()) == set(cells.collect_params())
    for name, parameter in fused.collect_params().items():
        values = mx.nd.array(random.normal(size=parameter.shape))
        parameter.set_data(values)
        cells.collect_params()[name].set_data(values)
    results = []
    for block in (fused, cells):
        with mx.autograd.record():
            if block is fused:
                outputs, states = fused(x, begin)
            else:
                outputs, states = cells.unroll(3, x, layout="TNC", merge_outputs=True)
                states = [mx.nd.stack(*states[place::2]) for place in (0, 1)]
            loss = (outputs * outputs).sum() + sum((one * one).sum() for one in states)
        loss.backward()
        gradients = {name: one.grad() for name, one in block.collect_params().items()}
        results.append([outputs, *states, *(gradients[name] for name in sorted(gradients))])
    for place, (got, expected) in enumerate(zip(*results, strict=True)):
        assert_close(f"result {place}", got.asnumpy(), expected.asnumpy())


def test_states_are_clipped_and_unfusing_is_refused() -> None:
    layers = _layers("LSTM", {"state_clip_min": -0.1, "state_clip_max": 0.1}, 5)
    _, (_, memory) = layers(mx.nd.array(X), layers.begin_state(4))
    assert np.abs(memory.asnumpy()).max() == np.float32(0.1)
    with pytest.raises(AssertionError, match="_unfuse does not support state clipping"):
        layers._unfuse()
    with pytest.raises(AssertionError, match="_unfuse does not support projection"):
        _layers("LSTM", {"projection_size": 2}, 5)._unfuse()


def test_positional_arguments_are_in_mxnets_order() -> None:
    shared = ("NTC", 0.1, True)
    initializers = ("ones", "zeros", "ones", "zeros")
    plain = rnn.RNN(6, 2, "tanh", *shared, *initializers, 5, "float64")
    gated = rnn.GRU(6, 2, *shared, 5, *initializers, "float64")
    projected = rnn.LSTM(6, 2, *shared, 5, *initializers, 3, "ones", -1, 1, True, "float64")
    for layers in (plain, gated, projected):
        assert layers.l0_i2h_weight.shape[1] == 5
        assert layers.l0_i2h_weight.dtype == "float64"
    assert projected.r1_h2r_weight.shape == (3, 6)
    assert [one["shape"] for one in projected.state_info(7)] == [(4, 7, 3), (4, 7, 6)]
