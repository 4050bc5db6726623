"""Graphs as tables and drawings (``mx.viz``)."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .errors import UsageError
from .symbol import Symbol
from .types import Shape

__all__ = ["plot_network", "print_summary"]

_TITLES = ("Layer (type)", "Output Shape", "Param #", "Previous Layer")
_WEIGHT_ENDINGS = (
    "_weight",
    "_bias",
    "_beta",
    "_gamma",
    "_moving_var",
    "_moving_mean",
    "_running_var",
    "_running_mean",
)
_COLORS = {
    "null": "#8dd3c7",
    "Convolution": "#fb8072",
    "FullyConnected": "#fb8072",
    "Activation": "#ffffb3",
    "LeakyReLU": "#ffffb3",
    "BatchNorm": "#bebada",
    "Pooling": "#80b1d3",
    "Concat": "#fdb462",
    "Flatten": "#fdb462",
    "Reshape": "#fdb462",
    "Softmax": "#b3de69",
}
_OTHER_COLOR = "#fccde5"

Json = dict[str, Any]


def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Shape] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Print a table of the operators: output shape, number of parameters, inputs.

    Like in MXNet, parameters are counted for Convolution, FullyConnected, BatchNorm and Embedding,
    using the channels of the preceding node if shapes are given.

    Args:
        symbol: the graph.
        shape: shapes of the inputs by name; if omitted, shapes are not shown.
        line_length: width of the table.
        positions: ends of the columns, in characters or as fractions of the width.
    """
    table = _Table(symbol, shape)
    if positions[-1] <= 1:
        positions = [int(line_length * part) for part in positions]
    lines = ["_" * line_length, _row(_TITLES, positions), "=" * line_length]
    total = 0
    for index, node in enumerate(table.nodes):
        if node["op"] == "null" and index > 0:
            continue
        count, rows = table.layer(index)
        total += count
        lines.extend(_row(row, positions) for row in rows)
        is_last = index == len(table.nodes) - 1
        lines.append(("=" if is_last else "_") * line_length)
    print("\n".join([*lines, f"Total params: {total}", "_" * line_length]))


class _Table:
    """The content of each line of a summary."""

    def __init__(self, symbol: Symbol, shape: Mapping[str, Shape] | None) -> None:
        _require_symbol(symbol)
        graph = json.loads(symbol.tojson())
        self.nodes: list[Json] = graph["nodes"]
        # As MXNet does by mistake: the entry (node, output, version) of the first head is taken
        # for three nodes.
        self._heads = set(graph["heads"][0])
        self._shapes = None if shape is None else _inferred_shapes(symbol, shape)

    def layer(self, index: int) -> tuple[int, list[tuple[Any, ...]]]:
        """Return the number of parameters of a node, and its rows."""
        node = self.nodes[index]
        before, channels = self._inputs(node)
        count = _count_parameters(node, channels, self._shapes)
        shown = self._shape_of(node) if node["op"] != "null" or index in self._heads else ()
        first, *others = before or [""]
        title = f"{node['name']}({node['op']})"
        rows: list[tuple[Any, ...]] = [(title, "x".join(map(str, shown)), count, first)]
        return count, [*rows, *(("", "", "", other) for other in others)]

    def _inputs(self, node: Json) -> tuple[list[str], int]:
        names, channels = [], 0
        for entry in node["inputs"] if node["op"] != "null" else ():
            source = self.nodes[entry[0]]
            if source["op"] == "null" and entry[0] not in self._heads:
                continue
            names.append(source["name"])
            shape = self._shape_of(source)
            channels += int(shape[0]) if shape else 0
        return names, channels

    def _shape_of(self, node: Json) -> Shape:
        """Return a node's output shape without the batch."""
        if self._shapes is None:
            return ()
        key = node["name"] if node["op"] == "null" else f"{node['name']}_output"
        return self._shapes.get(key, ())[1:]


def _count_parameters(node: Json, channels: int, shapes: Mapping[str, Shape] | None) -> int:
    op: str = node["op"]
    attributes: dict[str, str] = node.get("attrs", {})
    has_bias = attributes.get("no_bias") != "True"
    if op == "Convolution":
        filters = int(attributes["num_filter"])
        count = channels * filters // int(attributes.get("num_group", "1"))
        for length in _numbers(attributes["kernel"]):
            count *= int(length)
        return count + (filters if has_bias else 0)
    if op == "FullyConnected":
        return (channels + has_bias) * int(attributes["num_hidden"])
    if op == "BatchNorm" and shapes is not None:
        return 2 * int(shapes[f"{node['name']}_output"][1])
    if op == "Embedding":
        return int(attributes["input_dim"]) * int(attributes["output_dim"])
    return 0


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Shape] | None = None,
    dtype: Mapping[str, Any] | None = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Any:
    """Return a ``graphviz.Digraph`` of the operators; ``render()`` draws it.

    Args:
        symbol: the graph.
        title: name of the file to draw.
        save_format: ``"pdf"``, ``"png"``, ...
        shape: shapes of the inputs by name, to label the edges.
        dtype: dtypes of the inputs by name, to label the edges.
        node_attrs: graphviz attributes of all nodes.
        hide_weights: do not show parameters.

    Raises:
        ImportError: the Python package graphviz is not installed.
    """
    _require_symbol(symbol)
    try:
        from graphviz import Digraph  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError("Draw network requires graphviz library: pip install graphviz") from error
    nodes: list[Json] = json.loads(symbol.tojson())["nodes"]
    _warn_of_repeated_names(nodes)
    shapes = None if shape is None else _inferred_shapes(symbol, shape)
    dtypes = None if dtype is None else _inferred_types(symbol, dtype)
    style = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034"}
    style |= {"style": "filled", **(node_attrs or {})}
    dot = Digraph(name=title, format=save_format)
    hidden = set()
    for node in nodes:
        name, op = node["name"], node["op"]
        if op == "null" and name.endswith(_WEIGHT_ENDINGS):
            if hide_weights:
                hidden.add(name)
            continue
        look = {**style, "fillcolor": _COLORS.get(op, _OTHER_COLOR)}
        if op == "null":
            look["shape"] = "oval"
        dot.node(name=name, label=_label(node), **look)
    for node in nodes:
        for source in _drawn_inputs(node, nodes):
            if source["name"] not in hidden:
                label = _edge_label(source, shapes, dtypes)
                dot.edge(node["name"], source["name"], dir="back", arrowtail="open", label=label)
    return dot


def _label(node: Json) -> str:
    op, attributes = node["op"], node.get("attrs", {})
    stride = "x".join(_numbers(attributes["stride"])) if "stride" in attributes else "1"
    kernel = "x".join(_numbers(attributes["kernel"])) if "kernel" in attributes else "[]"
    if op == "Convolution":
        return f"Convolution\n{kernel}/{stride}, {attributes['num_filter']}"
    if op == "FullyConnected":
        return f"FullyConnected\n{attributes['num_hidden']}"
    if op == "Activation":
        return f"Activation\n{attributes['act_type']}"
    if op == "LeakyReLU":
        return f"LeakyReLU\n{attributes.get('act_type', 'Leaky')}"
    if op == "Pooling":
        return f"Pooling\n{attributes['pool_type']}, {kernel}/{stride}"
    return str(attributes["op_type"] if op == "Custom" else node["name"])


def _drawn_inputs(node: Json, nodes: Sequence[Json]) -> Iterator[Json]:
    if node["op"] == "null":
        return
    # The second input of this operator only provides its shape.
    entries = node["inputs"][:1] if node["op"] == "_contrib_BilinearResize2D" else node["inputs"]
    for entry in entries:
        yield nodes[entry[0]]


def _edge_label(
    source: Json, shapes: Mapping[str, Shape] | None, dtypes: Mapping[str, Any] | None
) -> str:
    key = source["name"]
    if source["op"] != "null":
        key += "_output"
        count = source.get("attrs", {}).get("num_outputs")
        key += "" if count is None else str(int(count) - 1)
    label = "" if shapes is None else "x".join(map(str, shapes[key][1:]))
    return label if dtypes is None else f"{label}({np.dtype(dtypes[key]).name})"


def _inferred_shapes(symbol: Symbol, given: Mapping[str, Shape]) -> dict[str, Shape]:
    internals = symbol.get_internals()
    _, shapes, _ = internals.infer_shape(**given)
    if shapes is None:
        raise UsageError(f"Input shape is incomplete: {dict(given)}")
    return dict(zip(internals.list_outputs(), shapes, strict=True))


def _inferred_types(symbol: Symbol, given: Mapping[str, Any]) -> dict[str, Any]:
    internals = symbol.get_internals()
    _, types, _ = internals.infer_type(**given)
    if types is None:
        raise UsageError(f"Input type is incomplete: {dict(given)}")
    return dict(zip(internals.list_outputs(), types, strict=True))


def _warn_of_repeated_names(nodes: Sequence[Json]) -> None:
    names = [node["name"] for node in nodes]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        warnings.warn(
            "There are multiple variables with the same name in your graph, this may result in "
            f"cyclic graph. Repeated names: {','.join(repeated)}",
            RuntimeWarning,
            stacklevel=3,
        )


def _require_symbol(symbol: Any) -> None:
    if not isinstance(symbol, Symbol):
        raise TypeError(f"symbol must be Symbol, got {type(symbol).__name__}")


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _row(fields: Sequence[Any], positions: Sequence[float]) -> str:
    line = ""
    for field, position in zip(fields, positions, strict=True):
        line = (line + str(field))[: int(position)].ljust(int(position))
    return line
