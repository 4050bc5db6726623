"""Unrolled recurrent cells are recognized by what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import core as mx
from core.compiler.cells import Cell, find_cells
from core.compiler.edit import Uses
from core.compiler.trace import Graph, specs_of, trace
from core.graph.infer import infer_graph

BATCH, FEATURES, HIDDEN = 2, 3, 5
STATE = (BATCH, HIDDEN)


def cells_in(symbol: mx.sym.Symbol) -> list[Cell]:
    graph = Graph.of(symbol.heads)
    specs = infer_graph(graph.heads, {"data": (BATCH, FEATURES)}, {})
    program = trace(graph, specs_of(specs), is_train=True)
    return find_cells(program, Uses(program.steps))


def step(cell: Any) -> mx.sym.Symbol:
    states = cell.begin_state(func=mx.sym.Variable)
    return cell(mx.sym.Variable("data"), states)[0]


def lstm(
    places: tuple[int, int, int, int] = (0, 1, 2, 3),
    act: Callable[..., Any] = mx.sym.tanh,
) -> mx.sym.Symbol:
    """One LSTM step, with the gates (input, forget, candidate, output) at the given places."""
    sums = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4 * HIDDEN, name="i2h")
    state = mx.sym.Variable("state", shape=STATE)
    sums = sums + mx.sym.FullyConnected(state, num_hidden=4 * HIDDEN, name="h2h")
    parts = mx.sym.SliceChannel(sums, num_outputs=4, name="parts")
    write, forget, show = (mx.sym.sigmoid(parts[places[i]]) for i in (0, 1, 3))
    memory = write * act(parts[places[2]]) + mx.sym.Variable("memory", shape=STATE) * forget
    return mx.sym.tanh(memory) * show


@pytest.mark.parametrize(
    ("cell", "mode", "count"),
    [
        (mx.rnn.LSTMCell, "lstm", 2),
        (mx.rnn.GRUCell, "gru", 1),
        (mx.rnn.RNNCell, "rnn_tanh", 2),
        (lambda hidden: mx.rnn.RNNCell(hidden, activation="relu"), "rnn_relu", 2),
    ],
)
def test_cells_of_mxnet_are_recognized(cell: Any, mode: str, count: int) -> None:
    # Where data and state are treated alike, either may take the other's role.
    found = cells_in(step(cell(HIDDEN)))
    assert [one.mode for one in found] == [mode] * count


def test_gates_are_recognized_by_their_use_not_their_place() -> None:
    assert {cell.order for cell in cells_in(lstm((3, 0, 2, 1)))} == {(3, 0, 2, 1)}


def _slice_axis(sums: mx.sym.Symbol, begin: int, end: int | None) -> mx.sym.Symbol:
    return mx.sym.slice_axis(sums, axis=1, begin=begin, end=end)


def _slice(sums: mx.sym.Symbol, begin: int, end: int | None) -> mx.sym.Symbol:
    return mx.sym.slice(sums, begin=(None, begin), end=(None, end))


@pytest.mark.parametrize("cut", [_slice_axis, _slice])
def test_gates_may_be_sliced_out_one_by_one(cut: Callable[..., mx.sym.Symbol]) -> None:
    one, other = (mx.sym.Variable(name, shape=STATE) for name in ("state", "memory"))
    sums = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4 * HIDDEN)
    sums = sums + mx.sym.FullyConnected(one, num_hidden=4 * HIDDEN)
    bounds = [(0, HIDDEN), (HIDDEN, 2 * HIDDEN), (-2 * HIDDEN, -HIDDEN), (-HIDDEN, None)]
    write, candidate, forget, show = (cut(sums, begin, end) for begin, end in bounds)
    sigmoid, tanh = mx.sym.sigmoid, mx.sym.tanh
    memory = sigmoid(forget) * other + sigmoid(write) * tanh(candidate)
    assert {cell.order for cell in cells_in(sigmoid(show) * tanh(memory))} == {(0, 2, 1, 3)}
    uneven = cut(sums, 1, HIDDEN + 1)
    memory = sigmoid(forget) * other + sigmoid(uneven) * tanh(candidate)
    assert not cells_in(sigmoid(show) * tanh(memory))


@pytest.mark.parametrize(
    "other",
    [
        lambda: lstm(act=mx.sym.sigmoid),
        lambda: lstm((0, 0, 2, 3)),
        lambda: step(mx.rnn.RNNCell(HIDDEN, activation="softrelu")),
    ],
    ids=["activation", "gate used twice", "function"],
)
def test_similar_computations_are_not_cells(other: Callable[[], mx.sym.Symbol]) -> None:
    assert not cells_in(other())


@pytest.mark.parametrize("name", ["i2h_output", "parts_output2"])
def test_a_cell_whose_inner_values_are_used_is_not_a_cell(name: str) -> None:
    output = lstm()
    assert not cells_in(mx.sym.Group([output, output.get_internals()[name]]))


def test_the_memory_of_a_cell_may_be_used() -> None:
    cell = mx.rnn.LSTMCell(HIDDEN)
    output, states = cell(mx.sym.Variable("data"), cell.begin_state(func=mx.sym.Variable))
    assert len(cells_in(mx.sym.Group([output, states[1]]))) == 2
