"""What follows from input shapes, before anything is allocated."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.executor.modules.symbol_specs import infer_specs
from core.errors import ShapeError

FLOAT = np.dtype("float32")


def network() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="fc1")
    x = mx.sym.BatchNorm(x, name="norm")
    x = mx.sym.FullyConnected(x, num_hidden=4, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def test_shapes_are_those_the_symbol_infers() -> None:
    symbol = network()
    specs = infer_specs(symbol, {"data": (8, 10)}, {"data": FLOAT})
    arguments, outputs, auxiliary = symbol.infer_shape(data=(8, 10))
    expected = dict(zip(symbol.list_arguments(), arguments, strict=True))
    expected |= dict(zip(symbol.list_auxiliary_states(), auxiliary, strict=True))
    assert {name: shape for name, (shape, _) in specs.variables.items()} == expected
    assert [shape for shape, _ in specs.outputs] == outputs
    assert {dtype for _, dtype in specs.variables.values()} == {FLOAT}


def test_bytes_are_counted() -> None:
    x = mx.sym.relu(mx.sym.Variable("x"))
    specs = infer_specs(mx.sym.sum(x), {"x": (10, 10)}, {"x": FLOAT})
    assert (specs.values_bytes, specs.largest_bytes) == (404, 400)
    assert specs.bind_bytes(for_training=False) == 400 + 404
    assert specs.bind_bytes(for_training=True) == 2 * 400 + 2 * 404


@pytest.mark.parametrize("for_training", [True, False])
def test_the_estimate_is_close_to_what_binding_takes(for_training: bool) -> None:
    symbol = network()
    specs = infer_specs(symbol, {"data": (256, 100)}, {"data": FLOAT})
    module = mx.mod.Module(symbol)
    labels = [("softmax_label", (256,))] if for_training else None
    module.bind([("data", (256, 100))], labels, for_training=for_training)
    (executor,) = module._exec_group.execs
    report = executor.memory_report()
    held = sum(array.size * 4 for array in executor.arg_dict.values())
    gradients = sum(array.size * 4 for array in executor.grad_dict.values() if array is not None)
    taken = report.arena + held + gradients
    assert 0.7 * taken < specs.bind_bytes(for_training) < 3 * taken


def test_contradictions_are_shape_errors() -> None:
    with pytest.raises(ShapeError, match="fc1"):
        infer_specs(network(), {"data": (8, 10), "fc1_weight": (16, 11)}, {"data": FLOAT})
