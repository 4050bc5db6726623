"""Step times, and which nodes each step computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import Executor


def bound(symbol: Any, **shapes: tuple[int, ...]) -> Executor:
    executor: Executor = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)
    for array in executor.arg_arrays:
        array[:] = 0.1
    return executor


def nodes_of(executor: Executor) -> list[tuple[str, ...]]:
    return [step.nodes for step in executor.timed_forward() if step.nodes]


def unrolled(length: int) -> Any:
    data = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    cell = mx.rnn.LSTMCell(5, prefix="lstm_")
    outputs, _ = cell.unroll(length, inputs=data, merge_outputs=True)
    rows = mx.sym.Reshape(outputs, shape=(-1, 5), name="rows")
    return mx.sym.FullyConnected(rows, num_hidden=3, name="fc")


def test_a_timed_pass_computes_what_a_plain_one_does() -> None:
    executor = bound(unrolled(4), data=(2, 4))
    expected = executor.forward()[0].asnumpy()
    executor.outputs[0][:] = 0
    steps = executor.timed_forward()
    np.testing.assert_array_equal(executor.outputs[0].asnumpy(), expected)
    assert all(step.seconds > 0 for step in steps)
    assert all(bool(step.nodes) != bool(step.copied) for step in steps)


def test_without_fusion_each_node_is_its_own_step() -> None:
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(1, 1), num_filter=2, name="conv")
    net = mx.sym.Activation(net, act_type="relu", name="relu")
    plain = CompileOptions(rewrite=False, plan=False, table=None)
    executor = bound(net, data=(1, 3, 4, 4))
    alone = Executor(
        net, executor.graph, executor._spec_of, mx.cpu(), executor.bound, executor.arena,
        options=plain,
    )  # fmt: skip
    assert nodes_of(alone) == [("conv",), ("relu",)]


def test_views_have_no_step() -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="one")
    net = mx.sym.Dropout(mx.sym.Flatten(net, name="flat"), name="drop")
    net = mx.sym.FullyConnected(net, num_hidden=2, name="two")
    assert nodes_of(bound(net, data=(3, 5))) == [("one",), ("two",)]


def test_an_unrolled_layer_is_reported_as_one_step() -> None:
    executor = bound(unrolled(6), data=(2, 6))
    assert any(step.operator == "recurrent" for step in executor.timed_forward()), "it is rolled up"
    found = nodes_of(executor)
    cells = max(found, key=len)
    assert {"lstm_t0_i2h", "lstm_t3_state", "lstm_t5_out"} <= set(cells)
    apart = [one for one in found if one != cells]
    assert {name for names in apart for name in names} == {
        *("embed", "lstm_begin_state_0", "lstm_begin_state_1", "fc")
    }


@pytest.mark.parametrize("length", [1, 6])
def test_no_node_is_listed_twice(length: int) -> None:
    executor = bound(unrolled(length), data=(2, length))
    groups = set(nodes_of(executor))
    names = [name for group in groups for name in group]
    assert len(names) == len(set(names))
    operators = {node.name for node in executor.graph.nodes if not node.is_variable}
    assert set(names) <= operators


def test_a_long_unrolled_net_is_timed_in_few_steps() -> None:
    """Listing a node once for every path that reads it would not finish."""
    steps = bound(unrolled(200), data=(2, 200)).timed_forward()
    assert len(steps) < 20
