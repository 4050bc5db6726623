"""Composition of graphs: applying operators, and replacing variables by other outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import GraphError, did_you_mean
from ..graph.nodes import Entry, Node, joined_name, topological_order
from ..graph.subgraph import Subgraph
from ..ops import Operator, make_operator
from ..ops.attributes import format_attribute
from .hidden_keys import hide_key

__all__ = ["apply_operator", "connect", "set_attributes", "set_initializers"]


def apply_operator(
    operator: str,
    name: str,
    attributes: Mapping[str, Any],
    positional: Sequence[Entry] = (),
    named: Mapping[str, Entry] | None = None,
    subgraphs: Sequence[Subgraph] = (),
) -> Node:
    """Return a new node that applies an operator; inputs not given become new variables.

    A new variable is called ``<name>_<input>`` and inherits all attributes of the operator.

    Raises:
        AttributeValueError: an attribute is unknown, missing or malformed.
        GraphError: too many inputs, or one the operator does not have.
    """
    attrs: dict[str, str] = {}
    for key, value in attributes.items():
        text = format_attribute(value)
        attrs[hide_key(key, text)] = text
    op = make_operator(operator, name, attrs, subgraphs)
    node = Node(op, name, attrs)
    node.inputs = _fill_inputs(node, op, positional, named or {})
    _set_versions(node)
    set_initializers(node)
    return node


def set_initializers(node: Node) -> None:
    """Give the input variables of a node the initializers its operator wants for them."""
    assert node.op is not None
    initializers = node.op.variable_initializers()
    if initializers:
        for name, (source, _) in zip(node.op.input_names(), node.inputs, strict=False):
            if source.is_variable and name in initializers:
                source.attrs.setdefault("__init__", initializers[name])


def connect(heads: Sequence[Entry], inputs: Mapping[str, Entry]) -> tuple[Entry, ...]:
    """Replace variables of a graph by entries of other graphs; nodes change in place.

    Args:
        heads: outputs of the graph.
        inputs: what takes the place of the variable of that name.

    Returns:
        the heads, other ones where a head was itself replaced.

    Raises:
        GraphError: the graph has no variable of a given name; it is then unchanged.
    """
    nodes = topological_order(heads)
    replaced = {
        node: inputs[node.name] for node in nodes if node.is_variable and node.name in inputs
    }
    matched = {node.name for node in replaced}
    if len(matched) < len(inputs):
        wrong = next(name for name in inputs if name not in matched)
        known = [node.name for node in nodes if node.is_variable]
        raise GraphError(
            f"the symbol has no input {wrong!r}{did_you_mean(wrong, known)}; "
            f"it has {', '.join(known)}"
        )
    for node in nodes:
        if any(entry.node in replaced for entry in node.inputs):
            node.inputs = [replaced.get(entry.node, entry) for entry in node.inputs]
            _set_versions(node)
    return tuple(replaced.get(head.node, head) for head in heads)


def set_attributes(node: Node, attributes: Mapping[str, str]) -> None:
    """Set attributes of a node; ``name`` renames it. On an error nothing is changed."""
    changed = dict(node.attrs)
    name = node.name
    for key, value in attributes.items():
        if key == "name":
            name = value
        else:
            changed[hide_key(key, value)] = value
    if node.op is not None:
        node.op = make_operator(node.op.names[0], name, changed, node.op.nested_graphs())
    node.name, node.attrs = name, changed


def _fill_inputs(
    node: Node, op: Operator, positional: Sequence[Entry], named: Mapping[str, Entry]
) -> list[Entry]:
    names = op.input_names()
    where = f"{op.names[0]} {node.name!r}"
    if len(positional) > len(names):
        raise GraphError(f"{where}: takes {len(names)} inputs, got {len(positional)}")
    for name in named:
        if name not in names:
            raise GraphError(
                f"{where}: has no input {name!r}{did_you_mean(name, names)}; "
                f"with these attributes it has {', '.join(names) or 'none'}"
            )
    inputs = list(positional)
    for name in names[len(positional) :]:
        entry = named.get(name)
        if entry is None:
            entry = Entry(Node(None, joined_name(node.name, name), dict(node.attrs)), 0)
        inputs.append(entry)
    return inputs


def _set_versions(node: Node) -> None:
    assert node.op is not None
    names = node.op.input_names()
    updated = node.op.auxiliary_names()
    for name, (source, _) in zip(names, node.inputs, strict=False):
        if name in updated and not source.is_variable:
            raise GraphError(
                f"{node.op.names[0]} {node.name!r}: {name} is the output of {source.name!r}; "
                "an auxiliary state must be a variable"
            )
        source.updates += name in updated
    node.versions = [source.updates for source, _ in node.inputs]
