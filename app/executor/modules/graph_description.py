"""A module's graph for display, with parameters folded into the operators that read them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from app.domain.module import BucketShapes, quoted_buckets
from app.errors.tree import NotFound
from app.executor.modules.hosted_module import HostedModule
from app.link.packed_json import pack_json
from core.graph.infer import GraphSpecs, infer_graph
from core.graph.nodes import Entry, Node, auxiliary_variables
from core.symbol import Symbol
from core.types import is_known, to_dtype

__all__ = ["bucket_of", "describe_graph", "packed_graph"]


def bucket_of(module: HostedModule, bucket: str | None) -> str:
    """Return the key of a bucket, by default that of the default bucket; raise NotFound."""
    key = module.record.default_bucket_key if bucket is None else bucket
    bound = module.buckets()
    if key not in (bound or module.symbols):
        raise NotFound("bucket", key, f"expected {quoted_buckets(bound or module.symbols)}")
    return key


def packed_graph(module: HostedModule, key: str) -> dict[str, str]:
    """Return the result of ``describe_graph``, packed for the answer."""
    return pack_json(describe_graph(module, key))


def describe_graph(module: HostedModule, key: str) -> dict[str, Any]:
    """Return nodes and outputs of a bucket's graph, with shapes as far as they can be inferred.

    Nodes are operators, and variables that are not parameters: data, labels, states.
    """
    symbol, shapes = module.symbols[key], module.buckets().get(key)
    roles: dict[str, str] = {
        **dict.fromkeys(module.record.state_names, "state"),
        **dict.fromkeys(module.label_names, "label"),
        **dict.fromkeys(module.data_names, "data"),
    }
    specs = _inferred(symbol, shapes)
    auxiliary = {node.name for node in auxiliary_variables(specs.nodes)}
    heads = {entry.node for entry in symbol.heads}
    shown = [
        node for node in specs.nodes if not node.is_variable or node.name in roles or node in heads
    ]
    places = {node: place for place, node in enumerate(shown)}
    nodes = [_node(node, specs, places, roles, auxiliary) for node in shown]
    outputs = [
        {"node": places[node], "output": output, "name": node.output_name(output)}
        for node, output in symbol.heads
    ]
    return {"bucket": key, "is_bound": shapes is not None, "nodes": nodes, "outputs": outputs}


def _inferred(symbol: Symbol, shapes: BucketShapes | None) -> GraphSpecs:
    descs = [] if shapes is None else [*shapes.data_shapes, *shapes.label_shapes]
    known = {one.name: one.shape for one in descs}
    dtypes = {one.name: to_dtype(one.dtype) for one in descs}
    return infer_graph(symbol.heads, known, dtypes, partial=True)


def _node(
    node: Node,
    specs: GraphSpecs,
    places: Mapping[Node, int],
    roles: Mapping[str, str],
    auxiliary: Set[str],
) -> dict[str, Any]:
    names = () if node.op is None else node.op.input_names()
    inputs, parameters = [], []
    for position, (source, output) in enumerate(node.inputs):
        name = names[position] if position < len(names) else str(position)
        if source in places:
            inputs.append({"node": places[source], "output": output, "name": name})
        else:
            role = "auxiliary" if source.name in auxiliary else "parameter"
            parameters.append(
                {"name": source.name, "input": name, "role": role} | _spec(specs, source, 0)
            )
    return {
        "name": node.name,
        "operator": None if node.op is None else node.op.names[0],
        "role": roles.get(node.name, "parameter") if node.is_variable else None,
        "attributes": node.attrs,
        "inputs": inputs,
        "parameters": parameters,
        "outputs": [
            {"name": node.output_name(index)} | _spec(specs, node, index)
            for index in range(node.visible_outputs())
        ],
    }


def _spec(specs: GraphSpecs, node: Node, output: int) -> dict[str, Any]:
    entry = Entry(node, output)
    shape, dtype = specs.shape(entry), specs.dtype(entry)
    return {
        "shape": list(shape) if is_known(shape) else None,
        "dtype": None if dtype is None else dtype.name,
    }
