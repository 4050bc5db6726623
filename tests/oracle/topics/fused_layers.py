"""Layers as MXNet fuses them for oneDNN: graphs with one subgraph each, in float32 and int8."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["CASES", "Case", "arrays_of", "graph", "record", "run_case"]

_VERSION = {"mxnet_version": ["int", 10901]}
_CHANNELS, _FILTERS, _FEATURES, _HIDDEN = 4, 6, 5, 3

Nodes = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Case:
    """A fused layer.

    Attributes:
        attrs: of the node.
        data: dtype of the data.
        layer: attributes of the layer that differ from a convolution of 3 x 3.
        stages: operators behind it with their attributes; ``elemwise_add`` adds a tensor.
        other: dtype of the tensor that is added.
        is_dense: whether the layer is a fully connected one.
    """

    attrs: Mapping[str, str]
    data: str = "float32"
    layer: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stages: tuple[tuple[str, Mapping[str, str]], ...] = ()
    other: str = "float32"
    is_dense: bool = False

    @property
    def is_quantized(self) -> bool:
        """Whether the data is quantized."""
        return "quantized" in self.attrs

    @property
    def output_count(self) -> int:
        """The number of the node's outputs."""
        return 3 if self.is_quantized and "enable_float_output" not in self.attrs else 1


_NORM = ("BatchNorm", {"eps": "0.01", "fix_gamma": "False"})
_RELU = ("Activation", {"act_type": "relu"})
_SIGMOID = ("Activation", {"act_type": "sigmoid"})
_SUM = ("elemwise_add", {})
_BYTES = {"quantized": "true"}
_ABOVE = {**_BYTES, "min_calib_range": "0.0", "max_calib_range": "3.5"}
_BOTH = {**_BYTES, "min_calib_range": "-3.0", "max_calib_range": "4.0"}
_FLOATS = {**_BYTES, "enable_float_output": "true"}
_BN, _ACT, _ADD = {"with_bn": "true"}, {"with_act": "true"}, {"with_sum": "true"}
_POST, _ELTWISE = {"with_postsum_act": "true"}, {"with_eltwise": "true"}

CASES: dict[str, Case] = {
    "float": Case({}),
    "float_norm_relu": Case({**_BN, **_ACT}, stages=(_NORM, _RELU)),
    "float_all": Case(
        {**_BN, **_ADD, **_POST},
        layer={"no_bias": "True", "stride": "(2, 2)"},
        stages=(_NORM, _SUM, _RELU),
    ),
    "float_tanh": Case(_ACT, stages=(("Activation", {"act_type": "tanh"}),)),
    "float_dense_sigmoid": Case(_ELTWISE, stages=(_SIGMOID,), is_dense=True),
    **{
        f"{kind}_{name}": case
        for kind in ("int8", "uint8")
        for name, case in {
            "bytes": Case(_BOTH, kind),
            "sums": Case(_BYTES, kind),
            "relu": Case({**_ABOVE, **_ACT}, kind, stages=(_RELU,)),
            "relu_old_name": Case({**_ABOVE, "with_relu": "true"}, kind, stages=(_RELU,)),
            "relu_sums": Case({**_BYTES, **_ACT}, kind, stages=(_RELU,)),
            "leaky": Case({**_BOTH, **_ACT}, kind, stages=(("LeakyReLU", {"act_type": "leaky"}),)),
            "clip": Case(
                {**_ABOVE, **_ACT}, kind, stages=(("clip", {"a_min": "0", "a_max": "3.5"}),)
            ),
            "norm": Case({**_BOTH, **_BN}, kind, stages=(_NORM,)),
            "fixed_gamma": Case({**_BOTH, **_BN}, kind, stages=(("BatchNorm", {}),)),
            "norm_relu": Case(
                {**_ABOVE, **_BN, **_ACT},
                kind,
                layer={"no_bias": "True", "pad": "(1, 1)", "stride": "(2, 2)"},
                stages=(_NORM, _RELU),
            ),
            "groups": Case(
                {**_BOTH, **_BN}, kind, layer={"num_group": "4", "num_filter": "4"}, stages=(_NORM,)
            ),
            "sum": Case({**_BOTH, **_ADD}, kind, stages=(_SUM,), other="int8"),
            "sum_relu": Case(
                {**_ABOVE, **_ADD, **_POST}, kind, stages=(_SUM, _RELU), other="uint8"
            ),
            "sum_relu_of_signed": Case(
                {**_ABOVE, **_ADD, **_POST}, kind, stages=(_SUM, _RELU), other="int8"
            ),
            "dense": Case(_BOTH, kind, is_dense=True),
            "dense_sums": Case(_BYTES, kind, is_dense=True),
            "dense_floats": Case(_FLOATS, kind, layer={"no_bias": "True"}, is_dense=True),
            "dense_relu": Case({**_ABOVE, **_ELTWISE}, kind, stages=(_RELU,), is_dense=True),
            "dense_sigmoid": Case({**_ABOVE, **_ELTWISE}, kind, stages=(_SIGMOID,), is_dense=True),
            "dense_sigmoid_floats": Case(
                {**_FLOATS, **_ELTWISE}, kind, stages=(_SIGMOID,), is_dense=True
            ),
            "dense_rows": Case({**_BOTH, "channel_wise_quantize": "True"}, kind, is_dense=True),
            "dense_rows_floats": Case(
                {**_FLOATS, "channel_wise_quantize": "True"}, kind, is_dense=True
            ),
        }.items()
    },
}


def _layer(case: Case) -> tuple[str, dict[str, str]]:
    if case.is_dense:
        return "FullyConnected", {"num_hidden": str(_HIDDEN), **case.layer}
    return "Convolution", {"kernel": "(3, 3)", "num_filter": str(_FILTERS), **case.layer}


def _subgraph(case: Case) -> tuple[dict[str, Any], list[str]]:
    """Return the subgraph and the names of its variables."""
    nodes: Nodes = []

    def add(op: str, name: str, attrs: Mapping[str, str], inputs: list[int]) -> int:
        nodes.append(
            {"op": op, "name": name, "attrs": dict(attrs), "inputs": [[i, 0, 0] for i in inputs]}
        )
        return len(nodes) - 1

    names = ["data", "weight"]
    op, attrs = _layer(case)
    if attrs.get("no_bias") != "True":
        names.append("bias")
    last = add(op, "layer", attrs, [add("null", name, {}, []) for name in names])
    for number, (op, attrs) in enumerate(case.stages):
        more = {"BatchNorm": ["gamma", "beta", "mean", "var"], "elemwise_add": ["other"]}
        new = more.get(op, [])
        last = add(op, f"stage{number}", attrs, [last, *(add("null", n, {}, []) for n in new)])
        names += new
    variables = [index for index, node in enumerate(nodes) if node["op"] == "null"]
    return {"nodes": nodes, "arg_nodes": variables, "heads": [[last, 0, 0]]}, names


def graph(case: Case) -> str:
    """Return the symbol JSON of a case."""
    subgraph, names = _subgraph(case)
    if case.is_quantized:
        with_range = ["data"] + ["other"] * ("other" in names)
        if case.is_dense and "channel_wise_quantize" not in case.attrs:
            with_range = names
        names = [*names, *(f"{end}_{name}" for name in with_range for end in ("min", "max"))]
    nodes: Nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    nodes.append(
        {
            "op": f"_sg_mkldnn_{'fully_connected' if case.is_dense else 'conv'}",
            "name": "fused",
            "attrs": dict(case.attrs),
            "inputs": [[index, 0, 0] for index in range(len(names))],
            "subgraphs": [subgraph],
        }
    )
    heads = [[len(names), index, 0] for index in range(case.output_count)]
    return json.dumps(
        {"nodes": nodes, "arg_nodes": list(range(len(names))), "heads": heads, "attrs": _VERSION}
    )


_REACH = {"min_data": -2.0, "max_data": 2.5, "min_weight": -0.9, "max_weight": 1.0}
_REACH |= {"min_bias": -1.5, "max_bias": 1.0, "min_other": -3.0, "max_other": 2.0}


def _array(
    case: Case, random: np.random.RandomState, name: str, shape: tuple[int, ...]
) -> np.ndarray:
    if name in _REACH:
        kind = {"data": case.data, "other": case.other}.get(name[4:], "int8")
        low = 0.0 if kind == "uint8" and name.startswith("min") else _REACH[name]
        return np.array([low], "float32")
    dtype = {"data": case.data, "other": case.other}.get(name, "float32")
    is_whole = case.is_quantized and case.is_dense and "channel_wise_quantize" not in case.attrs
    if is_whole and name in ("weight", "bias"):
        dtype = "int8"
    if dtype != "float32":
        low, high = (-127, 128) if dtype == "int8" else (0, 256)
        return random.randint(low, high, shape).astype(dtype)
    if name == "var":
        return random.uniform(0.5, 2, shape).astype("float32")
    return random.normal(0, 0.3 if name == "weight" else 1, shape).astype("float32")


def arrays_of(case: Case, name: str, symbol: Any) -> dict[str, np.ndarray]:
    """Return all arguments and auxiliary states by name."""
    shape = (3, _FEATURES) if case.is_dense else (2, _CHANNELS, 7, 6)
    arguments, _, auxiliary = symbol.infer_shape(data=shape)
    names = (*symbol.list_arguments(), *symbol.list_auxiliary_states())
    shapes = dict(zip(names, (*arguments, *auxiliary), strict=True))
    random = np.random.RandomState(len(name))
    return {key: _array(case, random, key, tuple(shapes[key])) for key in sorted(shapes)}


def run_case(mx: Any, name: str) -> list[np.ndarray]:
    """Return the outputs of a case."""
    case = CASES[name]
    symbol = mx.sym.load_json(graph(case))
    arrays = {
        key: mx.nd.array(value, dtype=value.dtype)
        for key, value in arrays_of(case, name, symbol).items()
    }
    auxiliary = {key: arrays.pop(key) for key in symbol.list_auxiliary_states()}
    executor = symbol.bind(mx.cpu(), arrays, aux_states=auxiliary, grad_req="null")
    return [output.asnumpy() for output in executor.forward()]


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return all outputs by case and number."""
    return {
        f"{name}/{index}": output
        for name in CASES
        for index, output in enumerate(run_case(mx, name))
    }
