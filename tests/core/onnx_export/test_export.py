"""The rest of an ONNX model: names, shapes, and errors for what ONNX cannot express."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.onnx_export import OPSET, ConversionError, export_onnx
from core.symbol import Symbol
from served.onnx_models import run_onnx


def _lengths(value: Any) -> list[int | str]:
    return [one.dim_param or one.dim_value for one in value.type.tensor_type.shape.dim]


def _parameters(symbol: Symbol, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    random = np.random.RandomState(3)
    found, _, _ = symbol.infer_shape_partial(**shapes)
    return {
        name: random.uniform(-1, 1, shape).astype("float32")
        for name, shape in zip(symbol.list_arguments(), found, strict=True)
        if name not in shapes and "label" not in name
    }


def _perceptron() -> Symbol:
    data = mx.sym.Variable("data")
    hidden = mx.sym.Activation(
        mx.sym.FullyConnected(data, num_hidden=3, name="fc"), act_type="relu"
    )
    return mx.sym.SoftmaxOutput(hidden, name="softmax")


def test_names_and_shapes_are_those_of_the_symbol() -> None:
    symbol = _perceptron()
    made = export_onnx(symbol, _parameters(symbol, data=(4, 5)), {"data": (4, 5)})
    graph = made.model.graph
    assert [(one.name, _lengths(one)) for one in graph.input] == [("data", ["batch", 5])]
    assert [(one.name, _lengths(one)) for one in graph.output] == [("softmax_output", ["batch", 3])]
    assert sorted(one.name for one in graph.initializer) == ["fc_bias", "fc_weight"]
    assert made.model.opset_import[0].version == OPSET
    assert made.model.producer_name == "modserve"


def test_a_fixed_batch_size_is_kept() -> None:
    data = mx.sym.Variable("data")
    symbol = mx.sym.FullyConnected(mx.sym.Reshape(data, shape=(4, 6)), num_hidden=2, name="fc")
    made = export_onnx(symbol, _parameters(symbol, data=(4, 2, 3)), {"data": (4, 2, 3)})
    assert made.fixed_batch is not None
    assert _lengths(made.model.graph.input[0]) == [4, 2, 3]


@pytest.mark.parametrize("batch", [2, 5])
def test_shapes_that_depend_on_the_batch_are_computed(batch: int) -> None:
    data = mx.sym.Variable("data")  # (steps, batch, inputs)
    state = mx.sym.zeros((1, 0, 3))
    vector = mx.sym.Variable("rnn_parameters")
    out = mx.sym.RNN(data, vector, state, mode="gru", state_size=3, num_layers=1, name="rnn")
    symbol = mx.sym.Reshape(out, shape=(-1, 3))
    made = export_onnx(
        symbol,
        _parameters(symbol, data=(4, 2, 5)),
        {"data": (4, 2, 5)},
        batch_axes={"data": 1},
    )
    assert made.fixed_batch is None
    assert _lengths(made.model.graph.output[0]) == ["4*batch", 3]
    values = np.random.RandomState(0).uniform(-1, 1, (4, batch, 5)).astype("float32")
    (got,) = run_onnx(made.model, {"data": values})
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=values.shape)
    executor.arg_dict["rnn_parameters"][:] = _parameters(symbol, data=(4, 2, 5))["rnn_parameters"]
    (expected,) = executor.forward(is_train=False, data=mx.nd.array(values))
    np.testing.assert_allclose(got, expected.asnumpy(), atol=1e-6)


def test_what_onnx_cannot_express_is_named() -> None:
    data, grid = mx.sym.Variable("data"), mx.sym.Variable("grid")
    sampled = mx.sym.BilinearSampler(data, grid, name="sampler")
    with pytest.raises(ConversionError, match=r"BilinearSampler \(sampler\)"):
        export_onnx(sampled, {}, {"data": (1, 2, 8, 8), "grid": (1, 2, 4, 4)})
    drawn = mx.sym.Dropout(data, mode="always", name="drop")
    with pytest.raises(ConversionError, match=r"Dropout \(drop\)"):
        export_onnx(drawn, {}, {"data": (2, 3)})
    norm = mx.sym.Pooling(data, kernel=(2, 2), pool_type="lp", p_value=2, name="pool")
    with pytest.raises(ConversionError, match=r"Pooling 'pool' cannot .* LpPool"):
        export_onnx(norm, {}, {"data": (1, 2, 8, 8)})
    shapes = {"data": (4, 2, 5)}
    lstm = mx.sym.RNN(data, mode="lstm", state_size=3, num_layers=1, projection_size=2, name="rnn")
    with pytest.raises(ConversionError, match=r"RNN 'rnn' .*its states are projected or clipped"):
        export_onnx(lstm, _parameters(lstm, **shapes), shapes)


def test_a_missing_parameter_is_named() -> None:
    symbol = _perceptron()
    parameters = _parameters(symbol, data=(4, 5))
    del parameters["fc_bias"]
    with pytest.raises(ConversionError, match="'fc_bias' is neither a parameter nor an input"):
        export_onnx(symbol, parameters, {"data": (4, 5)})


def test_inputs_that_are_also_outputs_are_copied() -> None:
    data = mx.sym.Variable("data")
    both = mx.sym.Group([data, data * 2])
    made = export_onnx(both, {}, {"data": (2, 3)})
    values = np.ones((2, 3), "float32")
    one, two = run_onnx(made.model, {"data": values})
    np.testing.assert_array_equal(one * 2, two)
