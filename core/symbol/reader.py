"""Read symbol JSON of every MXNet version into a graph.

Everything in a file is checked before it is used: any text yields either a graph or an MXNetError
that names the node and the field.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ..errors import (
    AttributeValueError,
    FormatError,
    GraphError,
    MXNetError,
    UnknownOperator,
    did_you_mean,
)
from ..graph.nodes import Entry, Node
from ..graph.subgraph import DEEPEST, Subgraph
from ..ndarray.np_shape import is_np_shape
from ..ops import get_operator, has_operator, make_operator
from ..ops.registry import registered_names
from .upgrade import canonical_operator, upgrade_attributes, upgrade_inputs
from .writer import MXNET_VERSION

__all__ = ["read_graph"]

_log = logging.getLogger(__name__)

_OLDEST = 800
"""The version assumed for files that do not state one, as by MXNet: 0.8.0."""

_GRAPH_FIELDS = ("nodes", "arg_nodes", "heads", "node_row_ptr", "attrs")
_NODE_FIELDS = (
    "op",
    "name",
    "inputs",
    "attrs",
    "attr",
    "param",
    "control_deps",
    "subgraphs",
    "backward_source_id",
)


class _Reference(NamedTuple):
    """An output as a file names it; for the version see ``Node.versions``."""

    node: int
    output: int
    version: int


class _RawNode(NamedTuple):
    """A node as it stands in a file; ``operator`` is None for a variable."""

    operator: str | None
    name: str
    attrs: dict[str, str]
    inputs: list[_Reference]
    subgraphs: list[Any]
    """As they stand in the file."""
    has_control_deps: bool
    """True if that field is filled, which none of the operators here supports."""


def read_graph(text: str) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """Return the heads of a graph in JSON, and their versions (see ``Node.versions``).

    Files of older MXNet versions are upgraded as MXNet 1.9.1 does it; so are, in np-shape mode,
    files written outside of it, whose variables have 0 for an unknown length.

    Raises:
        FormatError: the text is not JSON or not that of a graph.
        UnknownOperator: operators are not known; the message names all of them.
        GraphError: attributes or connections that make no graph.
    """
    fields = _fields("the graph", _parse(text), _GRAPH_FIELDS, ("nodes", "arg_nodes", "heads"))
    return _make_graph(fields, _version(fields.get("attrs")), depth=0)


def _make_graph(
    fields: Mapping[str, Any], version: int, depth: int
) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """Return heads and their versions of a graph nested ``depth`` levels deep."""
    raw = [_read_node(index, item) for index, item in enumerate(_list("nodes", fields["nodes"]))]
    _refuse_unknown_operators(raw)
    if depth == 0 and is_np_shape() and not _is_of_np_shape(fields.get("attrs")):
        _mark_unknown_lengths(raw)
    nodes: list[Node] = []
    for node in raw:
        nodes.append(_make_node(node, nodes, version, _make_subgraphs(node, version, depth)))
    _check_argument_nodes(fields["arg_nodes"], raw)
    heads = _read_heads(fields["heads"], nodes)
    entries = tuple(Entry(nodes[head.node], head.output) for head in heads)
    return entries, tuple(head.version for head in heads)


def _make_subgraphs(node: _RawNode, version: int, depth: int) -> list[Subgraph]:
    if not node.subgraphs:
        return []
    where = f"node {node.name[:80]!r}"
    if node.operator is None or not get_operator(node.operator).graph_names:
        raise GraphError(f"{where} has subgraphs, but its operator takes none")
    if depth == DEEPEST:
        raise FormatError(f"{where} has subgraphs nested more than {DEEPEST} deep")
    made = []
    for index, value in enumerate(node.subgraphs):
        try:
            required = ("nodes", "arg_nodes", "heads")
            fields = _fields("the graph", value, _GRAPH_FIELDS[:-1], required)
            made.append(Subgraph(*_make_graph(fields, version, depth + 1)))
        except MXNetError as error:
            raise type(error)(f"{where}.subgraphs[{index}]: {error}") from None
    return made


def _parse(text: str) -> Any:
    try:
        # MXNet does not escape control characters in names; strict=True would reject them.
        return json.loads(text, strict=False, parse_constant=_refuse_constant)
    except RecursionError:
        raise FormatError("symbol JSON is nested too deeply") from None
    except ValueError as error:
        raise FormatError(f"symbol JSON is malformed: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python's parser takes although JSON has none."""
    raise ValueError(f"{name} is not a JSON number")


def _fields(
    where: str, value: Any, known: tuple[str, ...], required: tuple[str, ...]
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{where} is {_kind(value)}; expected an object")
    for field in value:
        if field not in known:
            raise FormatError(
                f"{where} has a field {field[:80]!r}{did_you_mean(field[:80], known)}; "
                f"expected {', '.join(known)}"
            )
    for field in required:
        if field not in value:
            raise FormatError(f"{where} has no field {field!r}")
    return value


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError(f"{where} is {_kind(value)}; expected a list")
    return value


def _string(where: str, value: Any) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{where} is {_kind(value)}; expected a string")
    # JSON may escape half of a surrogate pair, with which nothing could be written again.
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FormatError(f"{where} is {value[:80]!r}, which is not valid Unicode") from None
    return value


def _number(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise FormatError(f"{where} is {_kind(value)}; expected a number from 0 to 2147483647")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "the string ", bool: "", type(None): "null"}
    name = names.get(type(value), "")
    if name and not isinstance(value, str):
        return name
    text = repr(value)
    return name + (text if len(text) <= 40 else f"{text[:37]}...")


def _version(attrs: Any) -> int:
    if attrs is None:
        return _OLDEST
    if not isinstance(attrs, dict):
        raise FormatError(f"attrs of the graph is {_kind(attrs)}; expected an object")
    if "mxnet_version" not in attrs:
        return _OLDEST
    pair = attrs["mxnet_version"]
    if not isinstance(pair, list) or len(pair) != 2 or pair[0] != "int":
        raise FormatError(
            f"attrs.mxnet_version is {_kind(pair)}; expected ['int', {MXNET_VERSION}]"
        )
    version = _number("attrs.mxnet_version", pair[1])
    if version > MXNET_VERSION:
        _log.warning(
            "symbol saved by MXNet version %d, newer than %d: it may mean something else there",
            version,
            MXNET_VERSION,
        )
    return version


def _is_of_np_shape(attrs: Any) -> bool:
    """Return whether a graph was written in np-shape mode."""
    return isinstance(attrs, dict) and attrs.get("is_np_shape") == ["int", 1]


def _mark_unknown_lengths(nodes: Sequence[_RawNode]) -> None:
    """Make the lengths of 0 that variables declare -1, as np-shape mode has unknown ones."""
    for node in nodes:
        if node.operator is None and "__shape__" in node.attrs:
            node.attrs["__shape__"] = re.sub(r"\b0L?\b", "-1", node.attrs["__shape__"])


def _read_node(index: int, value: Any) -> _RawNode:
    where = f"nodes[{index}]"
    fields = _fields(where, value, _NODE_FIELDS, ("op", "name", "inputs"))
    name = _string(f"{where}.name", fields["name"])
    where = f"{where} {name[:80]!r}"
    inputs = []
    for position, item in enumerate(_list(f"{where}.inputs", fields["inputs"])):
        reference = _read_reference(f"{where}.inputs[{position}]", item)
        # This also rules out cycles.
        if reference.node >= index:
            raise GraphError(
                f"{where}.inputs[{position}] refers to node {reference.node}; "
                "expected a node that comes before it"
            )
        inputs.append(reference)
    operator = _string(f"{where}.op", fields["op"])
    return _RawNode(
        operator=None if operator == "null" else canonical_operator(operator),
        name=name,
        attrs=_read_attributes(where, fields),
        inputs=inputs,
        subgraphs=_list(f"{where}.subgraphs", fields.get("subgraphs", [])),
        has_control_deps=bool(_list(f"{where}.control_deps", fields.get("control_deps", []))),
    )


def _read_attributes(where: str, fields: Mapping[str, Any]) -> dict[str, str]:
    attrs: dict[str, str] = {}
    # MXNet before 0.9 has the operator's own in "param" and all others in "attr", MXNet up to 0.12
    # all in "attr", and later ones in "attrs".
    for field in ("param", "attr", "attrs"):
        values = fields.get(field, {})
        if not isinstance(values, dict):
            raise FormatError(f"{where}.{field} is {_kind(values)}; expected an object")
        for key, value in values.items():
            attrs[_string(f"a key of {where}.{field}", key)] = _string(
                f"{where}.{field}[{key[:80]!r}]", value
            )
    return attrs


def _read_reference(where: str, value: Any) -> _Reference:
    items = _list(where, value)
    if not 2 <= len(items) <= 3:
        raise FormatError(f"{where} has {len(items)} elements; expected [node, output, version]")
    numbers = [_number(f"{where}[{position}]", item) for position, item in enumerate(items)]
    return _Reference(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0)


def _refuse_unknown_operators(raw: list[_RawNode]) -> None:
    unknown: dict[str, str] = {}
    for node in raw:
        if node.operator is not None and not has_operator(node.operator):
            unknown.setdefault(node.operator, node.name)
    if unknown:
        known = list(registered_names())
        listed = [
            f"{operator[:80]!r} (node {name[:80]!r}{did_you_mean(operator[:80], known)})"
            for operator, name in itertools.islice(unknown.items(), 20)
        ]
        if len(unknown) > len(listed):
            listed.append("...")
        many = len(unknown) > 1
        what = f"{len(unknown)} operators of the graph are" if many else "An operator is"
        raise UnknownOperator(f"{what} not known: {', '.join(listed)}")


def _make_node(
    raw: _RawNode, nodes: list[Node], version: int, subgraphs: Sequence[Subgraph]
) -> Node:
    """Return a node of a file, given the nodes before it."""
    attrs, for_inputs = upgrade_attributes(raw.operator, raw.attrs, version)
    op = None
    if raw.operator is not None:
        op = make_operator(raw.operator, raw.name[:80], attrs, subgraphs)
    if raw.has_control_deps:
        raise GraphError(f"node {raw.name[:80]!r} has control_deps, which are not supported")
    given = len(raw.inputs) + len(subgraphs)
    # Before ``input_names``, which would make as many names as a malicious file asks for.
    if op is not None and op.variadic and getattr(op, op.variadic) > given:
        raise GraphError(
            f"{op.names[0]} {raw.name[:80]!r} has {len(raw.inputs)} inputs; its {op.variadic} is "
            f"{getattr(op, op.variadic)}"
        )
    for position, reference in enumerate(raw.inputs):
        where = f"node {raw.name[:80]!r}.inputs[{position}]"
        _check_output(where, nodes[reference.node], reference.output)
    node = Node(
        op,
        raw.name,
        attrs,
        inputs=[Entry(nodes[reference.node], reference.output) for reference in raw.inputs],
        versions=[reference.version for reference in raw.inputs],
    )
    if op is not None:
        for key in upgrade_inputs(node, for_inputs, version):
            raise AttributeValueError(
                f"{op.names[0]} {raw.name[:80]!r}: attribute {key[:80]!r} is for an input that is "
                f"not one of its variables; it has {', '.join(op.input_names())}"
            )
    _check_inputs(node)
    return node


def _check_output(where: str, node: Node, output: int) -> None:
    if output >= node.output_count():
        raise GraphError(
            f"{where} is output {output} of {node.name[:80]!r}, which has {node.output_count()}"
        )


def _check_inputs(node: Node) -> None:
    names = () if node.op is None else node.op.input_names()
    what = "variable" if node.op is None else node.op.names[0]
    if len(node.inputs) != len(names):
        raise GraphError(
            f"{what} {node.name[:80]!r} has {len(node.inputs)} inputs; expected {len(names)}"
            + (f" ({', '.join(names)})" if len(names) <= 20 and names else "")
        )
    updated = () if node.op is None else node.op.auxiliary_names()
    for name, (source, _) in zip(names, node.inputs, strict=True):
        if name in updated and not source.is_variable:
            raise GraphError(
                f"{what} {node.name[:80]!r}: {name} is the output of {source.name[:80]!r}; "
                "an auxiliary state must be a variable"
            )


def _check_argument_nodes(value: Any, raw: list[_RawNode]) -> None:
    """Check the list of variables, which has no other use: the nodes tell by themselves."""
    for position, item in enumerate(_list("arg_nodes", value)):
        index = _number(f"arg_nodes[{position}]", item)
        if index >= len(raw):
            raise GraphError(f"arg_nodes[{position}] is {index}; there are {len(raw)} nodes")
        if raw[index].operator is not None:
            raise GraphError(
                f"arg_nodes[{position}] is node {index} {raw[index].name[:80]!r}, "
                "which is not a variable"
            )


def _read_heads(value: Any, nodes: list[Node]) -> list[_Reference]:
    heads = [
        _read_reference(f"heads[{position}]", item)
        for position, item in enumerate(_list("heads", value))
    ]
    if not heads:
        raise GraphError("heads is empty; a symbol has at least one output")
    for position, head in enumerate(heads):
        if head.node >= len(nodes):
            raise GraphError(
                f"heads[{position}] refers to node {head.node}; there are {len(nodes)} nodes"
            )
        _check_output(f"heads[{position}]", nodes[head.node], head.output)
    return heads
