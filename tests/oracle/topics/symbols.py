"""Composed symbols and all their properties, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from oracle import networks

__all__ = ["CASES", "describe", "make", "write_files"]

Shapes = Mapping[str, tuple[int, ...]]


def automatic_names(mx: Any) -> Any:
    """Return unnamed layers, two of each kind."""
    s = mx.sym
    x = s.Activation(s.FullyConnected(s.Variable("data"), num_hidden=4), act_type="relu")
    x = s.Activation(s.FullyConnected(x, num_hidden=3), act_type="tanh")
    return s.SoftmaxOutput(s.Flatten(x))


def group(mx: Any) -> Any:
    """Return three heads, one of them with two outputs."""
    s = mx.sym
    x = s.Variable("data")
    fc = s.FullyConnected(x, num_hidden=6, name="fc")
    parts = s.SliceChannel(fc, num_outputs=2, name="parts")
    return s.Group([s.BlockGrad(fc, name="features"), parts, s.SoftmaxOutput(fc, name="softmax")])


def slices(mx: Any) -> Any:
    """Return single outputs of an operator with three, taken by number and by name."""
    s = mx.sym
    parts = s.SliceChannel(s.Variable("data"), num_outputs=3, axis=1, name="split")
    first, second, _ = parts
    return s.Group([second, parts["split_output2"] * first, parts[0]])


def internals(mx: Any) -> Any:
    """Return a new head on an internal layer."""
    inner = networks.mlp(mx).get_internals()["relu1_output"]
    return mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(inner, num_hidden=1, name="value"), name="regression"
    )


def attributes(mx: Any) -> Any:
    """Return layers with attributes from scopes, variables and operators."""
    s = mx.sym
    x = s.Variable("data", shape=(0, 5), dtype="float32", __layout__="NC")
    weight = s.Variable(
        "w", lr_mult=0.5, wd_mult=0.0, init=mx.init.Normal(0.1), attr={"__mood__": "calm"}
    )
    with mx.AttrScope(ctx_group="stage1", __group__="outer"):
        fc1 = s.FullyConnected(x, weight=weight, num_hidden=3, name="fc1", lr_mult=0.1)
        with mx.AttrScope(__group__="inner", lr_mult="0.2"):
            fc2 = s.FullyConnected(fc1, num_hidden=2, name="fc2", attr={"__own__": "1"})
    with mx.AttrScope(ctx_group="stage2"):
        return s.SoftmaxOutput(fc2, name="softmax")


def prefixed(mx: Any) -> Any:
    """Return layers with names of a common prefix."""
    s = mx.sym
    with mx.name.Prefix("net_"):
        x = s.FullyConnected(s.Variable("data"), num_hidden=4)
        x = s.FullyConnected(x, num_hidden=2, name="last")
    return s.SoftmaxOutput(x)


def arithmetic(mx: Any) -> Any:
    """Return sums and products of symbols and scalars on either side."""
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    x = (a + 1) * 2 - b / 3
    y = (1 - a) * (2 / b) + (-a) ** 2
    z = (a > b) + (a <= 1) + (b == 2) + (a != b)
    return mx.sym.Group([x, y, z, a * b - (a + b)])


def composed(mx: Any) -> Any:
    """Return one network used as the input of two others."""
    s = mx.sym
    tail = s.FullyConnected(s.Variable("x"), num_hidden=3, name="tail")
    head = s.FullyConnected(s.Variable("data"), num_hidden=5, name="head")
    by_name = tail(x=head, name="joined")
    other = s.FullyConnected(s.Variable("y"), num_hidden=2, name="other")
    return s.Group([by_name, other(y=head)])


def auxiliary(mx: Any) -> Any:
    """Return layers with auxiliary states and hidden outputs."""
    s = mx.sym
    x = s.Convolution(s.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="conv")
    x = s.BatchNorm(x, name="bn")
    x = s.Dropout(x, p=0.3, name="drop")
    x = s.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg", name="pool")
    return s.SoftmaxOutput(s.FullyConnected(x, num_hidden=2, name="fc"), name="softmax")


def variadic(mx: Any) -> Any:
    """Return operators with any number of inputs."""
    s = mx.sym
    x = [s.Variable(f"x{i}") for i in range(3)]
    return s.Group(
        [
            s.Concat(*x, dim=1, name="joined"),
            s.concat(x[0], x[1]),
            s.add_n(*x, name="total"),
            s.ElementWiseSum(x[0], x[2]),
        ]
    )


def shared_weights(mx: Any) -> Any:
    """Return two towers that share their weights."""
    s = mx.sym
    w, b = s.Variable("w"), s.Variable("b")
    towers = [
        s.FullyConnected(s.Variable(side), weight=w, bias=b, num_hidden=4, name=f"{side}_fc")
        for side in ("left", "right")
    ]
    return s.sum(s.square(towers[0] - towers[1]), axis=1, name="distance")


def typed(mx: Any) -> Any:
    """Return a graph that changes dtype midway."""
    s = mx.sym
    x = s.Cast(s.Variable("data"), dtype="float16", name="half")
    x = s.FullyConnected(x, num_hidden=3, name="fc")
    return s.SoftmaxOutput(s.Cast(x, dtype="float32", name="single"), name="softmax")


def backward_shapes(mx: Any) -> Any:
    """Return a graph whose input shapes are inferred from its labels."""
    s = mx.sym
    x = s.elemwise_add(s.Variable("a"), s.Variable("b"), name="both")
    return s.LinearRegressionOutput(x, s.Variable("target"), name="out")


def attributes_without_effect(mx: Any) -> Any:
    """Return operators with attributes they do not know, as found in exported models."""
    s = mx.sym
    x = s.broadcast_mul(s.Variable("data"), s.zeros_like(s.Variable("z"), dtype="float16"), axis=1)
    return s.LinearRegressionOutput(s.relu(x, act_type="relu"), normalization="valid", name="out")


CASES: dict[str, tuple[Callable[[Any], Any], Shapes]] = {
    "automatic_names": (automatic_names, {"data": (2, 5)}),
    "group": (group, {"data": (2, 5)}),
    "slices": (slices, {"data": (2, 6)}),
    "internals": (internals, {"data": (2, 12)}),
    "attributes": (attributes, {"data": (2, 5)}),
    "prefixed": (prefixed, {"data": (2, 5)}),
    "arithmetic": (arithmetic, {"a": (2, 3)}),
    "composed": (composed, {"data": (2, 7)}),
    "auxiliary": (auxiliary, {"data": (2, 3, 6, 6)}),
    "auxiliary_unknown_batch": (auxiliary, {"data": (0, 3, 6, 6)}),
    "variadic": (variadic, {f"x{i}": (2, 3) for i in range(3)}),
    "shared_weights": (shared_weights, {"left": (2, 3), "right": (2, 3)}),
    "typed": (typed, {"data": (2, 5)}),
    "backward_shapes": (backward_shapes, {"target": (3, 2)}),
    "attributes_without_effect": (attributes_without_effect, {"data": (2, 3)}),
    "lenet": (networks.lenet, {"data": (2, 1, 28, 28)}),
    "word_model": (lambda mx: networks.word_model(mx, 5), {"data": (3, 5)}),
}


def make(mx: Any, case_id: str) -> Any:
    """Return the symbol, with automatic names counted from 0."""
    with mx.name.NameManager(), mx.AttrScope():
        return CASES[case_id][0](mx)


def describe(mx: Any, case_id: str) -> dict[str, Any]:
    """Return all properties of a symbol, in a form that survives JSON."""
    symbol, shapes = make(mx, case_id), CASES[case_id][1]
    first = {symbol.list_arguments()[0]: np.float64}
    children = symbol.get_children()
    facts = {
        "name": symbol.name,
        "len": len(symbol),
        "arguments": symbol.list_arguments(),
        "outputs": symbol.list_outputs(),
        "auxiliary_states": symbol.list_auxiliary_states(),
        "inputs": symbol.list_inputs(),
        "attributes": symbol.attr_dict(),
        "own_attributes": symbol.list_attr() if len(symbol) == 1 else None,
        "internals": symbol.get_internals().list_outputs(),
        "children": children.list_outputs() if children is not None else None,
        "shapes": symbol.infer_shape_partial(**shapes),
        "dtypes": [_names(types) for types in symbol.infer_type(**first)],
        "json": symbol.tojson(),
        "json_of_last_output": symbol[len(symbol) - 1].tojson(),
    }
    return dict(json.loads(json.dumps(facts)))


def write_files(mx: Any, folder: Path) -> None:
    """Write one JSON file per symbol."""
    for case_id in CASES:
        text = json.dumps(describe(mx, case_id), indent=1, sort_keys=True)
        (folder / f"{case_id}.json").write_text(text + "\n", encoding="utf-8")


def _names(types: Any) -> Any:
    return None if types is None else [np.dtype(t).name if t is not None else None for t in types]
