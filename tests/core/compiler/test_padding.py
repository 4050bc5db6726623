"""Unrolled LSTMs over padded sequences run as layers, including each sequence's last memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics import gluon_cells

STEPS, BATCH, FEATURES, HIDDEN = 5, 4, 3, 4
LAYER = "_plan_recurrent"
WAYS = {
    "rolled": CompileOptions(),
    "rolled, by references": CompileOptions(table=None),
    "as it is": CompileOptions(rewrite=False, plan=False, table=None),
}

Arrays = dict[str, np.ndarray]


@pytest.mark.parametrize("case_id", ["lstm_lengths", "both_lengths"])
def test_results_match_mxnets(case_id: str) -> None:
    golden, symbol = golden_file.topic("gluon_cells"), gluon_cells.graph(mx, case_id)
    cell, options = gluon_cells.make(mx, case_id)
    cell.initialize()
    arrays = {name: mx.nd.array(one) for name, one in gluon_cells.inputs(case_id).items()}
    cell.unroll(gluon_cells.STEPS, arrays["data"], **options)
    gluon_cells.fill(mx, cell)
    arguments = {name: one.data() for name, one in cell.collect_params().items()}
    arguments |= {"data": arrays["data"], "lengths": arrays["valid_length"]}
    gradients = {name: one.zeros_like() for name, one in arguments.items()}
    executor = symbol.bind(mx.cpu(), arguments, gradients)
    outputs = executor.forward(is_train=True)
    executor.backward([2 * out for out in outputs])
    assert_close("data", gradients["data"].asnumpy(), golden[f"{case_id}/data_grad"])
    for place, out in enumerate(outputs):
        assert_close(f"out{place}", out.asnumpy(), golden[f"{case_id}/out{place}"])
    for name in cell.collect_params():
        assert_close(name, gradients[name].asnumpy(), golden[f"{case_id}/grad/{name}"])


def unrolled(layout: str = "NTC") -> tuple[list[mx.sym.Symbol], list[mx.sym.Symbol]]:
    """Return the masked outputs and the states of an LSTM."""
    cell = mx.gluon.rnn.LSTMCell(HIDDEN, prefix="a_")
    data, lengths = mx.sym.var("data"), mx.sym.var("lengths")
    outputs, states = cell.unroll(
        STEPS, data, layout=layout, merge_outputs=True, valid_length=lengths
    )
    return [outputs], states


def bound(symbol: mx.sym.Symbol, arrays: Arrays, options: CompileOptions) -> Any:
    arguments = {name: mx.nd.array(values) for name, values in arrays.items()}
    gradients = {name: one.zeros_like() for name, one in arguments.items()}
    return bind(symbol, mx.cpu(), arguments, gradients, "write", options=options)


def drawn(symbol: mx.sym.Symbol, lengths: list[float], layout: str = "NTC") -> Arrays:
    random = np.random.RandomState(4)
    sizes = (BATCH, STEPS) if layout == "NTC" else (STEPS, BATCH)
    shapes, _, _ = symbol.infer_shape(data=(*sizes, FEATURES), lengths=(BATCH,))
    names = symbol.list_arguments()
    arrays = {
        name: random.normal(scale=0.7, size=shape)
        for name, shape in zip(names, shapes, strict=True)
    }
    return arrays | {"lengths": np.array(lengths)}


def layers(executor: Any) -> list[int]:
    programs = [plan.compiled.program for plan in executor._plans.values()]
    names = [[step.op.names[0] for step in program.forward_steps] for program in programs]
    return [one.count(LAYER) for one in names]


def trained(executor: Any) -> list[np.ndarray]:
    """Return the outputs of both modes, and the gradients."""
    results = [out.asnumpy() for out in executor.forward(is_train=False)]
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.cos(out) for out in outputs])
    return results + [one.asnumpy() for one in (*outputs, *executor.grad_arrays)]


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
@pytest.mark.parametrize("lengths", [[2, 5, 1, 3], [5, 5, 5, 5], [0, 2.7, 9, -1]], ids=str)
def test_results_match_the_unrolled_steps(lengths: list[float], layout: str) -> None:
    outputs, states = unrolled(layout)
    symbol = mx.sym.Group([*outputs, *states])
    arrays = drawn(symbol, lengths, layout)
    ways = {way: bound(symbol, arrays, options) for way, options in WAYS.items()}
    found = {way: trained(executor) for way, executor in ways.items()}
    assert [sum(layers(executor)) for executor in ways.values()] == [2, 2, 0]
    for way in ("rolled", "rolled, by references"):
        for place, (got, expected) in enumerate(zip(found[way], found["as it is"], strict=True)):
            assert_close(f"{way} {place}", got, expected)


def test_the_values_in_the_padding_do_not_matter() -> None:
    symbol = mx.sym.Group([*unrolled()[0], *unrolled()[1]])
    lengths = [2, 5, 1, 3]
    arrays = drawn(symbol, lengths)
    outputs = bound(symbol, arrays, CompileOptions()).forward()
    for value in (np.nan, np.inf, 1e30):
        for row, length in enumerate(lengths):
            arrays["data"][row, length:] = value
        again = bound(symbol, arrays, CompileOptions()).forward()
        for one, other in zip(outputs, again, strict=True):
            np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


def stacks_of(symbol: mx.sym.Symbol) -> mx.sym.Symbol:
    """Return the stacks of states and memories, padding included."""
    inside = symbol.get_internals()
    return mx.sym.Group([inside[one] for one in inside.list_outputs() if one.startswith("stack")])


def other_lengths(outputs: list[mx.sym.Symbol], states: list[mx.sym.Symbol]) -> mx.sym.Symbol:
    (stack,) = states[0].get_children()[:1]
    last = mx.sym.SequenceLast(stack, mx.sym.var("others"), use_sequence_length=True)
    return mx.sym.Group([*states, last])


READS_PADDING: dict[str, Callable[[Any, Any], mx.sym.Symbol]] = {
    "stacks shown": lambda outputs, states: mx.sym.Group(
        [*states, stacks_of(mx.sym.Group(states))]
    ),
    "memories read": lambda outputs, states: mx.sym.Group(
        [*states, *(one.sum() for one in stacks_of(states[1]))]
    ),
    "states read": lambda outputs, states: mx.sym.Group(
        [*states, *(one.sum() for one in stacks_of(states[0]))]
    ),
    "other lengths": other_lengths,
}


@pytest.mark.parametrize("case", READS_PADDING)
def test_graphs_that_read_the_padding_are_not_rolled_up(case: str) -> None:
    with mx.name.NameManager():
        symbol = READS_PADDING[case](*unrolled())
    names = symbol.list_arguments()
    shapes = {"others": (BATCH,)} if "others" in names else {}
    found, _, _ = symbol.infer_shape(data=(BATCH, STEPS, FEATURES), lengths=(BATCH,), **shapes)
    random = np.random.RandomState(4)
    arrays = {
        name: random.normal(scale=0.7, size=shape) for name, shape in zip(names, found, strict=True)
    }
    arrays |= {"lengths": np.array([2, 5, 1, 3])}
    arrays |= {name: np.array([4, 1, 5, 2]) for name in shapes}
    executor = bound(symbol, arrays, CompileOptions())
    got = trained(executor)
    assert sum(layers(executor)) == 0
    expected = trained(bound(symbol, arrays, WAYS["as it is"]))
    for place, pair in enumerate(zip(got, expected, strict=True)):
        assert_close(f"{place}", *pair)
