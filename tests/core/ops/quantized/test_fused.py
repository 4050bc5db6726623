"""Layers that MXNet fused for oneDNN, against MXNet 1.9.1."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, GraphError, TypeInferenceError
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics import fused_layers
from oracle.topics.fused_layers import CASES, graph


@pytest.mark.parametrize("name", sorted(CASES))
def test_results_match_mxnets(name: str) -> None:
    outputs = fused_layers.run_case(mx, name)
    assert len(outputs) == CASES[name].output_count
    for index, output in enumerate(outputs):
        assert_close(name, output, golden_file.topic("fused_layers")[f"{name}/{index}"])


def test_names_match_mxnets() -> None:
    symbol = mx.sym.load_json(graph(CASES["int8_norm_relu"]))
    assert symbol.list_outputs() == ["fused_output", "fused_output_min", "fused_output_max"]
    assert symbol.list_auxiliary_states() == ["mean", "var"]
    symbol = mx.sym.load_json(graph(CASES["int8_dense"]))
    assert symbol.list_outputs() == ["fused_output", "fused_min_output", "fused_max_output"]


def test_parameters_are_inferred() -> None:
    symbol = mx.sym.load_json(graph(CASES["int8_norm_relu"]))
    arguments, outputs, auxiliary = symbol.infer_shape(data=(2, 4, 8, 8))
    shapes = dict(zip(symbol.list_arguments(), arguments, strict=True))
    assert shapes["weight"] == (6, 4, 3, 3)
    assert shapes["min_data"] == (1,)
    assert auxiliary == [(6,), (6,)]
    assert outputs == [(2, 6, 4, 4), (1,), (1,)]
    _, types, _ = symbol.infer_type(data="int8")
    assert types == [np.uint8, np.float32, np.float32]


def test_float_inputs_are_refused() -> None:
    symbol = mx.sym.load_json(graph(CASES["int8_bytes"]))
    with pytest.raises(TypeInferenceError, match="expected int8 or uint8"):
        symbol.infer_type(data="float32")


@pytest.mark.parametrize("name", ["float_norm_relu", "int8_norm_relu", "int8_dense"])
def test_training_is_refused(name: str) -> None:
    symbol = mx.sym.load_json(graph(CASES[name]))
    kind = CASES[name].data
    shape = (2, 5) if "dense" in name else (2, 4, 8, 8)
    with pytest.raises(GraphError, match="has no gradient"):
        symbol.simple_bind(mx.cpu(), data=shape, type_dict={"data": kind})


def _changed(name: str, change: Callable[[dict[str, Any]], None]) -> str:
    fields = json.loads(graph(CASES[name]))
    change(fields["nodes"][-1])
    return json.dumps(fields)


def _set(**attrs: str) -> Callable[[dict[str, Any]], None]:
    return lambda node: node["attrs"].update(attrs)


def _nodes(node: dict[str, Any]) -> Any:
    return node["subgraphs"][0]["nodes"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("float", _set(with_bn="true"), "with_bn: with_bn is True, but its subgraph has no such"),
        ("float", _set(with_everything="true"), "attribute 'with_everything' is unknown"),
        ("float_tanh", _set(quantized="true"), "can have 'relu', 'leaky'"),
        ("int8_clip", lambda node: node["attrs"].pop("max_calib_range"), "give both or none"),
        ("int8_dense_floats", _set(min_calib_range="0", max_calib_range="1"), "give one of them"),
        ("int8_dense_sums", _set(channel_wise_quantize="True"), "its output needs"),
        ("float", lambda node: node.pop("subgraphs"), "has 0 subgraphs; expected 1"),
        (
            "float",
            lambda node: _nodes(node)[-1].update(inputs=[[0, 0, 0], [0, 0, 0], [2, 0, 0]]),
            "not a chain at Convolution",
        ),
        ("int8_sum", lambda node: node["attrs"].pop("with_sum"), "none is True"),
    ],
)
def test_contradictory_attributes_are_refused(
    name: str, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(AttributeValueError, match=message):
        mx.sym.load_json(_changed(name, change))


def test_changed_weights_are_quantized_again() -> None:
    """They are quantized when they change, not on each run, and not only once."""
    case = dataclasses.replace(CASES["int8_norm_relu"])
    symbol = mx.sym.load_json(graph(case))
    arrays = fused_layers.arrays_of(case, "int8_norm_relu", symbol)
    executor = symbol.simple_bind(
        mx.cpu(), grad_req="null", data=(2, 4, 7, 6), type_dict={"data": "int8"}
    )
    for name, array in arrays.items():
        {**executor.arg_dict, **executor.aux_dict}[name][:] = array
    before = executor.forward()[0].asnumpy()
    assert before.any()
    executor.aux_dict["var"][:] = 1e12
    executor.arg_dict["beta"][:] = 0
    assert not executor.forward()[0].asnumpy().any()
    executor.aux_dict["var"][:] = arrays["var"]
    executor.arg_dict["beta"][:] = arrays["beta"]
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), before)
    executor.arg_dict["max_data"][:] = 0.001
    executor.arg_dict["min_data"][:] = 0
    assert (executor.forward()[0].asnumpy() != before).any()
