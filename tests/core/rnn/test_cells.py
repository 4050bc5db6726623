"""Packing and unpacking weights, sharing variables, and invalid uses of cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import UsageError


def _outputs(cell: mx.rnn.BaseRNNCell, params: dict[str, mx.nd.NDArray]) -> np.ndarray:
    symbol, _ = cell.unroll(3, mx.sym.Variable("data"), layout="TNC", merge_outputs=True)
    data = np.random.RandomState(0).normal(size=(3, 2, 5)).astype("float32")
    args = {"data": mx.nd.array(data), **params}
    args = {name: args[name] for name in symbol.list_arguments()}
    return symbol.bind(mx.cpu(), args, grad_req="null").forward()[0].asnumpy()


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_unpacked_fused_weights_work_in_the_unfused_cells(mode: str, bidirectional: bool) -> None:
    fused = mx.rnn.FusedRNNCell(4, 2, mode, bidirectional, prefix="net_")
    gates = {"lstm": 4, "gru": 3}.get(mode, 1)
    width = 8 if bidirectional else 4
    size = gates * 4 * (5 + 4 + 2) + gates * 4 * (width + 4 + 2)
    size *= 2 if bidirectional else 1
    vector = mx.nd.array(np.random.RandomState(1).normal(size=size, scale=0.3))
    packed = {"net_parameters": vector}
    unpacked = fused.unpack_weights(packed)
    stack = fused.unfuse()
    np.testing.assert_allclose(
        _outputs(stack, stack.pack_weights(unpacked)), _outputs(fused, packed), atol=1e-6
    )
    again = fused.pack_weights(unpacked)
    np.testing.assert_array_equal(again["net_parameters"].asnumpy(), vector.asnumpy())


def test_bias_initializers_reach_the_parameters() -> None:
    outputs, _ = mx.rnn.LSTMCell(3, forget_bias=2.0).unroll(
        2, mx.sym.Variable("data"), merge_outputs=True
    )
    module = mx.mod.Module(outputs, label_names=None)
    module.bind([("data", (1, 2, 4))])
    module.init_params()
    bias = module.get_params()[0]["lstm_i2h_bias"].asnumpy()
    assert bias.tolist() == [0] * 3 + [2] * 3 + [0] * 6


def test_checkpoints_store_weights_gate_by_gate(tmp_path: Path) -> None:
    cell = mx.rnn.GRUCell(2, prefix="g_")
    symbol, _ = cell.unroll(2, mx.sym.Variable("data"), merge_outputs=True)
    values = np.arange(12, dtype="float32")
    params = {
        "g_i2h_weight": mx.nd.array(values.reshape(6, 2)),
        "g_h2h_weight": mx.nd.array(-values.reshape(6, 2)),
        "g_i2h_bias": mx.nd.array(values[:6]),
        "g_h2h_bias": mx.nd.array(-values[:6]),
    }
    prefix = str(tmp_path / "model")
    callback = mx.rnn.do_rnn_checkpoint(cell, prefix, period=2)
    callback(0, symbol, params, {})
    assert not list(tmp_path.iterdir())
    callback(1, symbol, params, {})
    stored = mx.model.load_params(prefix, 2)[0]
    np.testing.assert_array_equal(stored["g_i2h_z_weight"].asnumpy(), [[4, 5], [6, 7]])
    _, arguments, _ = mx.rnn.load_rnn_checkpoint([cell], prefix, 2)
    assert arguments.keys() == params.keys()
    for name, array in params.items():
        np.testing.assert_array_equal(arguments[name].asnumpy(), array.asnumpy())


def test_cells_can_share_parameters() -> None:
    first = mx.rnn.RNNCell(3, prefix="one_")
    second = mx.rnn.RNNCell(3, prefix="two_", params=first.params)
    outputs, _ = second.unroll(1, [first.unroll(1, [mx.sym.Variable("x")])[0][0]])
    names = mx.sym.Group(outputs).list_arguments()
    assert sorted(names) == [
        "one_h2h_bias",
        "one_h2h_weight",
        "one_i2h_bias",
        "one_i2h_weight",
        "x",
    ]


def test_invalid_uses_are_refused() -> None:
    x = mx.sym.Variable("x")
    lstm = mx.rnn.LSTMCell(2)
    with pytest.raises(UsageError, match="outside unroll"):
        lstm.unroll(2, None)
    with pytest.raises(UsageError, match="1 inputs for 2 steps"):
        lstm.unroll(2, [x])
    with pytest.raises(UsageError, match="grouped"):
        lstm.unroll(2, mx.sym.Group([x, x]))
    with pytest.raises(UsageError, match="unfuse"):
        mx.rnn.ZoneoutCell(mx.rnn.FusedRNNCell(2))
    with pytest.raises(NotImplementedError, match="cannot be stepped"):
        mx.rnn.BidirectionalCell(mx.rnn.RNNCell(2), mx.rnn.RNNCell(2))(x, [])
    mx.rnn.ZoneoutCell(lstm)
    with pytest.raises(AssertionError, match="modifier cell"):
        lstm.begin_state()
    with pytest.raises(UsageError, match="expected a number"):
        mx.rnn.DropoutCell("0.5")
    with pytest.raises(UsageError, match="odd"):
        mx.rnn.ConvRNNCell((1, 2, 3, 3), 2, h2h_kernel=(2, 3))
    shared = mx.rnn.RNNCell(2)
    mx.rnn.RNNCell(2, params=shared.params)
    with pytest.raises(UsageError, match="not both"):
        mx.rnn.SequentialRNNCell(params=mx.rnn.RNNParams("p_")).add(shared)


def test_reading_the_variables_of_a_cell_does_not_share_them() -> None:
    cell = mx.rnn.RNNCell(2)
    weight = cell.params.get("i2h_weight")
    one, other = (mx.rnn.SequentialRNNCell(params=mx.rnn.RNNParams("p_")) for _ in range(2))
    one.add(cell)
    assert one.params.get("i2h_weight") is not weight  # of another prefix
    with pytest.raises(UsageError, match="not both"):
        other.add(cell)
