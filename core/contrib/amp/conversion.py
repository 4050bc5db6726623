"""Converts a float32 graph to one of mixed precision: the pass behind ``convert_symbol``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from ...errors import MXNetError
from ...graph.infer import infer_dtypes
from ...graph.nodes import Entry, Node, topological_order
from ...ops import Operator, make_operator
from ...ops.identity import AmpCast, AmpMulticast
from ...types import DType, dtype_code

__all__ = ["Precisions", "converted_graph"]

_FLOAT32 = np.dtype("float32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Precisions:
    """What is computed in which dtype.

    Attributes:
        low: the target dtype, float16 or bfloat16.
        low_ops, float32_ops, widest_ops: names of operators computed in the target dtype, in
            float32, and in the widest dtype of their inputs. All others are computed in the dtype
            of their first input.
        conditional: by operator and attribute, the values with which it is computed in float32.
        excluded: names of nodes computed in float32.
        data: names of the inputs that are not parameters.
        casts_parameters: whether parameters of operators in ``low_ops`` are stored in the target
            dtype, so that the graph need not cast them.
    """

    low: DType
    low_ops: Set[str]
    float32_ops: Set[str]
    widest_ops: Set[str]
    conditional: Mapping[str, Mapping[str, Set[str]]]
    excluded: Set[str]
    data: Set[str]
    casts_parameters: bool


def converted_graph(heads: Sequence[Entry], precisions: Precisions) -> tuple[Entry, ...]:
    """Return a copy of a graph with ``amp_cast`` and ``amp_multicast`` where they are needed.

    Outputs are float32. Variables that are not data get their dtype as ``__dtype__``.
    """
    conversion = _Conversion(precisions)
    for node in topological_order(heads):
        conversion.visit(node)
    converted = tuple(conversion.in_dtype(head, 0, _FLOAT32) for head in heads)
    _declare_dtypes(topological_order(converted), precisions)
    return converted


def _declare_dtypes(nodes: Sequence[Node], precisions: Precisions) -> None:
    """Set the dtypes of all variables that are not data, whatever they were declared with."""
    for node in nodes:
        if node.is_variable and node.name not in precisions.data:
            node.attrs.pop("__dtype__", None)
    inferred = infer_dtypes(nodes, dict.fromkeys(precisions.data, _FLOAT32))
    dtypes = {node: inferred[node][0] for node in nodes if node.is_variable}
    if precisions.casts_parameters:
        dtypes |= _cast_dtypes(nodes, dtypes, precisions.low)
    for node, dtype in dtypes.items():
        if node.name not in precisions.data:
            node.attrs["__dtype__"] = str(dtype_code(dtype or _FLOAT32))


def _cast_dtypes(
    nodes: Sequence[Node], known: Mapping[Node, DType | None], low: DType
) -> dict[Node, DType | None]:
    """Return the dtypes of variables that are only read by casts, all to the same dtype.

    Those that are cast to the widest dtype among themselves can be stored in the target dtype.
    """
    found: dict[Node, DType | None] = {}
    for node in nodes:
        variables = [source for source, _ in node.inputs if source.is_variable]
        match node.op:
            case AmpCast():
                dtype = node.op.dtype
            case AmpMulticast() if len(variables) == len(node.inputs):
                dtype = low
            case _:
                continue
        for variable in variables:
            if known[variable] is None:
                is_agreed = found.setdefault(variable, dtype) == dtype
                found[variable] = dtype if is_agreed else None
    return found


class _Conversion:
    """Creates the nodes of the new graph, in the order of the old one's."""

    def __init__(self, precisions: Precisions) -> None:
        self._precisions = precisions
        self._copies: dict[Node, Node] = {}
        self._known: dict[DType, dict[Entry, Entry]] = {_FLOAT32: {}, precisions.low: {}}
        """By dtype, the counterparts of outputs that are known to have it, or were cast to it."""

    def visit(self, node: Node) -> None:
        """Create the counterpart of a node."""
        copy = Node(node.op, node.name, dict(node.attrs), [], list(node.versions))
        copy.updates = node.updates
        self._copies[node] = copy
        precisions, op = self._precisions, node.op
        name = None if op is None else op.names[0]
        if node.name in precisions.excluded or name in precisions.float32_ops:
            self._in_float32(node, copy)
        elif op is None:
            return
        elif name in precisions.low_ops:
            self._in_low_precision(node, op, copy)
        elif name in precisions.widest_ops:
            self._in_widest(node, copy)
        elif self._is_conditional(node):
            self._in_float32(node, copy, casts_variables=True)
        else:
            self._in_dtype_of_first(node, op, copy)

    def in_dtype(self, entry: Entry, version: int, dtype: DType) -> Entry:
        """Return the counterpart of an output in a dtype, cast if necessary."""
        known = self._known[dtype]
        if entry not in known:
            source = entry.node
            name = f"{source.name}{_suffix(entry)}_amp_cast_{dtype.name}"
            attrs = {"dtype": dtype.name}
            cast = Node(
                make_operator("amp_cast", name, attrs), name, attrs, [self._copy(entry)], [version]
            )
            known[entry] = Entry(cast, 0)
        return known[entry]

    def _in_float32(self, node: Node, copy: Node, casts_variables: bool = False) -> None:
        self._know(node, [_FLOAT32] * node.output_count())
        updated = _updated_inputs(node)
        for index, (entry, version) in enumerate(zip(node.inputs, node.versions, strict=True)):
            # Variables are float32 already, unless a script declares them otherwise. MXNet's pass
            # relies on that too, except for operators on a condition (`casts_variables`).
            is_left = entry.node.is_variable and not casts_variables
            if entry not in self._known[_FLOAT32] and (is_left or index in updated):
                copy.inputs.append(self._copy(entry))
            else:
                copy.inputs.append(self.in_dtype(entry, version, _FLOAT32))

    def _in_low_precision(self, node: Node, op: Operator, copy: Node) -> None:
        low = self._precisions.low
        inputs, outputs = _inferred(op, node, low)
        self._know(node, outputs)
        updated = _updated_inputs(node)
        for index, (entry, version) in enumerate(zip(node.inputs, node.versions, strict=True)):
            is_stored_low = self._is_stored_low(entry)
            # Also left are inputs that the operator wants in another dtype, as BatchNorm its gamma.
            is_left = is_stored_low or index in updated or inputs[index] not in (low, None)
            if entry in self._known[low] or not is_left:
                copy.inputs.append(self.in_dtype(entry, version, low))
                continue
            copy.inputs.append(self._copy(entry))
            if is_stored_low:
                self._known[low][entry] = self._copy(entry)

    def _is_stored_low(self, entry: Entry) -> bool:
        precisions = self._precisions
        return (
            precisions.casts_parameters
            and entry.node.is_variable
            and entry.node.name not in precisions.data
        )

    def _in_widest(self, node: Node, copy: Node) -> None:
        known, low = self._known, self._precisions.low
        if any(entry not in known[low] and entry not in known[_FLOAT32] for entry in node.inputs):
            self._multicast(node, copy)
            return
        is_wide = any(entry in known[_FLOAT32] for entry in node.inputs)
        dtype = _FLOAT32 if is_wide else low
        self._know(node, [dtype] * node.output_count())
        copy.inputs = [
            self.in_dtype(entry, version, dtype)
            for entry, version in zip(node.inputs, node.versions, strict=True)
        ]

    def _multicast(self, node: Node, copy: Node) -> None:
        name = f"{node.inputs[0].node.name}{_suffix(node.inputs[0])}_amp_multicast"
        attrs = {"num_outputs": str(len(node.inputs))}
        inputs = [self._copy(entry) for entry in node.inputs]
        cast = Node(
            make_operator("amp_multicast", name, attrs), name, attrs, inputs, list(node.versions)
        )
        # Which dtype is the widest is not known here, so that nothing is noted about the outputs.
        copy.inputs = [Entry(cast, index) for index in range(len(inputs))]

    def _in_dtype_of_first(self, node: Node, op: Operator, copy: Node) -> None:
        copy.inputs = [self._copy(entry) for entry in node.inputs]
        for dtype in (self._precisions.low, _FLOAT32):
            if node.inputs and node.inputs[0] in self._known[dtype]:
                self._know(node, _inferred(op, node, dtype)[1])
                return

    def _is_conditional(self, node: Node) -> bool:
        assert node.op is not None
        conditions = self._precisions.conditional.get(node.op.names[0], {})
        return any(node.attrs.get(name) in values for name, values in conditions.items())

    def _copy(self, entry: Entry) -> Entry:
        return Entry(self._copies[entry.node], entry.output)

    def _know(self, node: Node, dtypes: Iterable[DType | None]) -> None:
        for output, dtype in enumerate(dtypes):
            if dtype is not None and dtype in self._known:
                self._known[dtype][Entry(node, output)] = Entry(self._copies[node], output)


def _inferred(
    op: Operator, node: Node, first: DType
) -> tuple[Sequence[DType | None], Sequence[DType | None]]:
    """Return the dtypes of inputs and outputs that follow from that of the first input."""
    nothing: list[DType | None] = [None] * len(node.inputs)
    try:
        return op.infer_type([first, *nothing[1:]], [None] * node.output_count())
    except MXNetError:
        return nothing, [None] * node.output_count()


def _updated_inputs(node: Node) -> set[int]:
    if node.op is None:
        return set()
    updated = node.op.auxiliary_names()
    return {index for index, name in enumerate(node.op.input_names()) if name in updated}


def _suffix(entry: Entry) -> str:
    node = entry.node
    if node.op is None:
        return ""
    return f"_{node.output_parts()[entry.output] if node.op.names_outputs else entry.output}"
