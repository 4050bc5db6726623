"""Write a graph as MXNet 1.9.1 writes it, byte for byte.

The rules for line breaks and escapes are those of the JSON writer in dmlc-core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..graph.nodes import Entry, Node, copy_graph, topological_order
from ..graph.subgraph import Subgraph
from ..ops.subgraph import Subgraph as GraphAttribute

__all__ = ["MXNET_VERSION", "describe_graph", "without_amp_casts", "write_graph"]

MXNET_VERSION = 10901
"""The version written into files: 1.9.1."""

_LONGEST_LINE = 10
"""Lists of more elements are written one element a line."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def write_graph(heads: Sequence[Entry], versions: Sequence[int], *, np_shape: bool = False) -> str:
    """Return the JSON of a graph.

    Args:
        heads: outputs of the graph.
        versions: the third number of each head (see ``Node.versions``).
        np_shape: whether the graph was made in np-shape mode, which the file then says.
    """
    fields = _graph_fields(heads, versions, 0)
    fields["attrs"] = _object(_file_attrs(np_shape), 1, multiline=np_shape)
    return _object(fields, 0, multiline=True)


def _graph_fields(heads: Sequence[Entry], versions: Sequence[int], depth: int) -> dict[str, str]:
    """Return what a graph and a subgraph both have; ``depth`` is that of their braces."""
    nodes = topological_order(heads)
    ids = {node: index for index, node in enumerate(nodes)}
    # Entries are numbered through all nodes; ``node_row_ptr`` has the number of each node's first.
    starts = [0]
    for node in nodes:
        starts.append(starts[-1] + (1 if node.op is None else node.op.stored_outputs()))
    inside = depth + 1
    return {
        "nodes": _array(
            [_write_node(node, ids, depth + 2) for node in nodes], inside, multiline=True
        ),
        "arg_nodes": _array([str(ids[node]) for node in nodes if node.is_variable], inside),
        "node_row_ptr": _array([str(start) for start in starts], inside),
        "heads": _array(_write_entries(heads, versions, ids), inside),
    }


def _file_attrs(np_shape: bool) -> dict[str, str]:
    mode = {"is_np_shape": '["int", 1]'} if np_shape else {}
    return {**mode, "mxnet_version": f'["int", {MXNET_VERSION}]'}


def without_amp_casts(heads: Sequence[Entry]) -> Sequence[Entry]:
    """Return the graph without the casts that mixed precision put in (heads keep theirs)."""
    if not any(_before_cast(entry) for node in topological_order(heads) for entry in node.inputs):
        return heads
    # A copy, because other symbols share the nodes.
    heads = copy_graph(heads)
    for node in topological_order(heads):
        node.inputs = [_before_cast(entry) or entry for entry in node.inputs]
    return heads


def describe_graph(heads: Sequence[Entry]) -> str:
    """Return a listing of a graph for people (``Symbol.debug_str``)."""
    if len(heads) == 1 and heads[0].node.is_variable:
        return f"Variable:{heads[0].node.name}\n"
    lines = ["Symbol Outputs:"]
    for index, (node, output) in enumerate(heads):
        lines.append(f"\toutput[{index}]={node.name}({output})")
    for node in topological_order(heads):
        if node.op is None:
            lines.append(f"Variable:{node.name}")
            continue
        lines += ["--------------------", f"Op:{node.op.names[0]}, Name={node.name}", "Inputs:"]
        sources = zip(node.inputs, node.versions, strict=True)
        for index, ((source, output), version) in enumerate(sources):
            note = f" version={version}" if source.is_variable else ""
            lines.append(f"\targ[{index}]={source.name}({output}){note}")
        if node.attrs:
            lines.append("Attrs:")
            lines += [f"\t{key}={node.attrs[key]}" for key in sorted(node.attrs)]
    return "\n".join(lines) + "\n"


def _write_node(node: Node, ids: dict[Node, int], depth: int) -> str:
    fields = {
        "op": _text("null" if node.op is None else node.op.names[0]),
        "name": _text(node.name),
    }
    if node.attrs:
        attrs = {key: _text(node.attrs[key]) for key in sorted(node.attrs)}
        fields["attrs"] = _object(attrs, depth + 1, multiline=len(attrs) > 1)
    fields["inputs"] = _array(_write_entries(node.inputs, node.versions, ids), depth + 1)
    subgraphs = () if node.op is None else node.op.nested_graphs()
    if subgraphs:
        written = [_write_subgraph(graph, depth + 2) for graph in subgraphs]
        fields["subgraphs"] = _array(written, depth + 1, multiline=True)
    return _object(fields, depth, multiline=True)


def _write_subgraph(graph: GraphAttribute, depth: int) -> str:
    assert isinstance(graph, Subgraph)
    return _object(_graph_fields(graph.heads, graph.versions, depth), depth, multiline=True)


def _write_entries(
    entries: Iterable[Entry], versions: Iterable[int], ids: dict[Node, int]
) -> list[str]:
    return [
        f"[{ids[node]}, {output}, {version}]"
        for (node, output), version in zip(entries, versions, strict=True)
    ]


def _text(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def _object(fields: dict[str, str], depth: int, *, multiline: bool) -> str:
    items = [f"{_text(key)}: {value}" for key, value in fields.items()]
    return f"{{{_join(items, depth, multiline)}}}"


def _array(items: Sequence[str], depth: int, *, multiline: bool = False) -> str:
    return f"[{_join(items, depth, multiline or len(items) > _LONGEST_LINE)}]"


def _join(items: Sequence[str], depth: int, multiline: bool) -> str:
    if not multiline or not items:
        return ", ".join(items)
    newline = "\n" + "  " * (depth + 1)
    return newline + f", {newline}".join(items) + "\n" + "  " * depth


def _before_cast(entry: Entry) -> Entry | None:
    """Return what an entry is the cast of; None for all other entries."""
    source = None if entry.node.op is None else entry.node.op.uncast(entry.output)
    return None if source is None else entry.node.inputs[source]
