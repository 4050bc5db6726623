"""Operators applied alike at every time step run once over the whole sequence."""

from __future__ import annotations

from typing import Any

import core as mx
from core.compiler.edit import Edit, Uses
from core.compiler.ir import Program, Step
from core.compiler.sequences import Sequences
from core.compiler.trace import Graph, specs_of, trace
from core.graph.infer import infer_graph

LENGTH, SHAPE = 3, (2, 3, 4)


def parts(name: str = "data") -> list[mx.sym.Symbol]:
    data = mx.sym.Variable(name, shape=SHAPE)
    return list(mx.sym.SliceChannel(data, num_outputs=LENGTH, axis=1, squeeze_axis=True))


def flattened(symbol: mx.sym.Symbol) -> tuple[Program, list[str]]:
    """Merge the last step and all sequences; return the program and its operators."""
    graph = Graph.of(symbol.heads)
    program = trace(graph, specs_of(infer_graph(graph.heads, {}, {})), is_train=True)
    edit = Edit(program, Uses(program.steps))
    sequences = Sequences(edit, ())
    sequences.flatten(_join(program))
    sequences.flatten_stacks()
    edit.finish()
    return program, [step.op.names[0] for step in program.steps]


def _join(program: Program) -> Step:
    return [step for step in program.steps if len(step.inputs) == LENGTH][-1]


def stack(*values: Any) -> mx.sym.Symbol:
    return mx.sym.stack(*values, axis=0)


def test_a_function_of_each_part_runs_on_the_whole() -> None:
    _, names = flattened(stack(*map(mx.sym.tanh, parts())))
    assert names == ["SwapAxis", "tanh", "Reshape"]


def test_both_operators_that_split_are_known() -> None:
    data = mx.sym.Variable("data", shape=SHAPE)
    split = mx.sym.split_v2(data, LENGTH, axis=1, squeeze_axis=True)
    _, names = flattened(stack(*map(mx.sym.tanh, split)))
    assert names == ["SwapAxis", "tanh", "Reshape"]


def test_reversed_parts_become_a_reversed_whole() -> None:
    _, names = flattened(stack(*map(mx.sym.tanh, parts()[::-1])))
    assert names == ["SwapAxis", "reverse", "tanh", "Reshape"]


def test_functions_may_be_nested_and_take_several_values() -> None:
    sums = [mx.sym.sigmoid(one) + other for one, other in zip(parts("a"), parts("b"), strict=True)]
    _, names = flattened(mx.sym.Concat(*sums, dim=0))
    assert sorted(names) == ["Reshape"] * 2 + ["SwapAxis"] * 2 + ["elemwise_add", "sigmoid"]


def test_concatenation_within_steps_becomes_one_concatenation() -> None:
    pairs = [mx.sym.Concat(*two, dim=1) for two in zip(parts("a"), parts("b"), strict=True)]
    program, names = flattened(stack(*pairs))
    assert sorted(names) == ["Concat", "Reshape", "SwapAxis", "SwapAxis"]
    concat = next(step for step in program.steps if step.op.names[0] == "Concat")
    assert program.values[concat.writes()[0]].shape == (LENGTH, SHAPE[0], 2 * SHAPE[2])


def test_a_layer_applied_at_every_step_runs_on_the_whole() -> None:
    weight, bias = mx.sym.Variable("weight"), mx.sym.Variable("bias")
    layers = [mx.sym.FullyConnected(one, weight, bias, num_hidden=6) for one in parts()]
    program, names = flattened(mx.sym.Concat(*layers, dim=0))
    assert names == ["SwapAxis", "FullyConnected", "Reshape"]
    assert program.values[program.outputs[0]].shape == (LENGTH * SHAPE[0], 6)


def test_layers_with_different_weights_are_not_merged() -> None:
    layers = [mx.sym.FullyConnected(one, num_hidden=6) for one in parts()]
    assert flattened(stack(*layers))[1].count("FullyConnected") == LENGTH


def test_values_of_different_widths_are_not_merged() -> None:
    narrow = [mx.sym.slice_axis(one, axis=1, begin=0, end=2) for one in parts("b")]
    pairs = [list(two) for two in zip(parts("a"), narrow, strict=True)]
    pairs[1].reverse()
    _, names = flattened(stack(*(mx.sym.Concat(*two, dim=1) for two in pairs)))
    assert names.count("Concat") == LENGTH


def test_dropout_draws_once_for_all_steps() -> None:
    _, names = flattened(stack(*(mx.sym.Dropout(one, p=0.5) for one in parts())))
    assert names == ["SwapAxis", "Dropout", "Reshape"]


def test_different_functions_are_not_merged() -> None:
    first, *others = parts()
    _, names = flattened(stack(mx.sym.sigmoid(first), *map(mx.sym.tanh, others)))
    assert names == ["SliceChannel", "sigmoid", "tanh", "tanh", "stack"]


def test_values_read_elsewhere_are_not_merged() -> None:
    values = [mx.sym.tanh(one) for one in parts()]
    _, names = flattened(mx.sym.Group([stack(*values), values[1] * 2]))
    assert names.count("tanh") == LENGTH


def test_dropout_along_axes_is_not_merged() -> None:
    _, names = flattened(stack(*(mx.sym.Dropout(one, axes=(0,)) for one in parts())))
    assert names.count("Dropout") == LENGTH
