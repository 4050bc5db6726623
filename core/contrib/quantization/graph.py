"""Translates a floating-point graph to a quantized one, and inserts calibrated ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from ...capabilities.quantized import QuantizedForm
from ...errors import GraphError
from ...graph.nodes import Entry, Node, topological_order
from ...ops import make_operator
from ...ops.quantized.arithmetic import QuantizedBatchNorm
from ...ops.quantized.base import Calibrated, Quantized
from ...ops.quantized.conversion import Dequantize, QuantizeV2, Requantize
from ...symbol.symbol import Symbol

__all__ = ["calibrated_graph", "quantized_graph"]

_QUANTIZE, _DEQUANTIZE, _REQUANTIZE = (op.names[0] for op in (QuantizeV2, Dequantize, Requantize))
_QUANTIZED = "quantized_"


def quantized_graph(
    symbol: Symbol,
    *,
    excluded_names: Set[str],
    excluded_operators: Set[str],
    parameters: Set[str],
    dtype: str,
    mode: str,
) -> tuple[Symbol, list[str]]:
    """Return a quantized graph, and the names of the tensors to be calibrated.

    Args:
        symbol: the floating-point graph.
        excluded_names: nodes that are not quantized.
        excluded_operators: operators whose nodes are not quantized.
        parameters: names of the variables that are quantized offline.
        dtype: ``int8``, ``uint8`` or ``auto``.
        mode: ``full`` quantizes all nodes that can be; ``smart`` quantizes those that are not
            layers (pooling, activations ...) only between quantized layers.
    """
    nodes = topological_order(symbol._heads)
    for name in sorted(excluded_names - {node.name for node in nodes}):
        raise GraphError(f"the graph has no node {name!r}, which is to be excluded")
    found: dict[Node, QuantizedForm] = {}
    for node in nodes:
        if node.op is None or node.op.names[0] in excluded_operators:
            continue
        on_bytes = node.op.on_bytes()
        if on_bytes is not None and node.name not in excluded_names:
            found[node] = on_bytes
    if mode == "smart":
        found = _between_layers(nodes, found)
    made = _Quantizer(found, parameters, dtype)
    for node in nodes:
        made.visit(node)
    heads = tuple(made.in_float(head) for head in symbol._heads)
    return Symbol(heads), _to_be_calibrated(heads)


def _between_layers(
    nodes: Sequence[Node], found: Mapping[Node, QuantizedForm]
) -> dict[Node, QuantizedForm]:
    """Drop nodes that have no quantized layer before them, or none after them."""
    optional = {node for node, form in found.items() if not form.is_layer}
    readers: dict[Node, list[Node]] = {}
    for node in nodes:
        for source, _ in node.inputs:
            readers.setdefault(source, []).append(node)
    layers = [node for node in found if node not in optional]

    def reached(neighbours: Callable[[Node], list[Node]]) -> set[Node]:
        seen: set[Node] = set()
        queue = list(layers)
        while queue:
            for other in neighbours(queue.pop()):
                if other in optional and other not in seen:
                    seen.add(other)
                    queue.append(other)
        return seen

    both = reached(lambda node: [source for source, _ in node.inputs])
    both &= reached(lambda node: readers.get(node, []))
    return {node: form for node, form in found.items() if form.is_layer or node in both}


class _Quantizer:
    """Creates the nodes of the new graph, in the order of the old one's."""

    def __init__(
        self, found: Mapping[Node, QuantizedForm], parameters: Set[str], dtype: str
    ) -> None:
        self._found = found
        self._parameters = parameters
        self._dtype = dtype
        self._copies: dict[Node, Node] = {}
        """The floating-point counterpart of each node."""
        self._bytes: dict[Node, Node] = {}
        """The quantized counterpart of each node, which also outputs the range."""
        self._quantize_nodes: dict[Entry, tuple[Entry, Entry, Entry]] = {}
        """Outputs of the ``quantize`` nodes, one for each floating-point output, shared by all its
        readers."""

    def visit(self, node: Node) -> None:
        """Create the counterpart of a node."""
        if node in self._found:
            self._bytes[node] = self._on_bytes(node, self._found[node])
            return
        inputs = [self.in_float(entry) for entry in node.inputs]
        copy = Node(node.op, node.name, dict(node.attrs), inputs, list(node.versions))
        copy.updates = node.updates
        self._copies[node] = copy

    def in_float(self, entry: Entry) -> Entry:
        """Return the floating-point counterpart of an output, dequantized if necessary."""
        node = entry.node
        if node not in self._found:
            return Entry(self._copies[node], entry.output)
        if node not in self._copies:
            parts = [Entry(self._bytes[node], index) for index in range(3)]
            self._copies[node] = _node(_DEQUANTIZE, f"{node.name}_dequantize", {}, parts)
        return Entry(self._copies[node], 0)

    def _on_bytes(self, node: Node, form: QuantizedForm) -> Node:
        tensors, ranges, versions = [], [], []
        for index, entry in enumerate(node.inputs):
            if index in form.numbers:
                tensors.append(self.in_float(entry))
                versions.append(node.versions[index])
                continue
            versions.append(0)
            data, low, high = self._as_bytes(entry)
            tensors.append(data)
            ranges += [low, high]
        made = _node(form.operator, _QUANTIZED + node.name, dict(node.attrs), [*tensors, *ranges])
        made.versions = [*versions, *(0 for _ in ranges)]
        if not (isinstance(made.op, Quantized) and made.op.has_sums):
            return made
        # int32 sums, which become bytes again before the next node reads them.
        parts = [Entry(made, index) for index in range(3)]
        return _node(_REQUANTIZE, f"requantize_{node.name}", {"out_type": self._dtype}, parts)

    def _as_bytes(self, entry: Entry) -> tuple[Entry, Entry, Entry]:
        """Return the quantized counterpart of an output, its minimum and its maximum."""
        source = entry.node
        if source in self._found:
            made = self._bytes[source]
            return Entry(made, 0), Entry(made, 1), Entry(made, 2)
        if entry not in self._quantize_nodes:
            self._quantize_nodes[entry] = self._quantized(entry)
        return self._quantize_nodes[entry]

    def _quantized(self, entry: Entry) -> tuple[Entry, Entry, Entry]:
        source = entry.node
        if source.is_variable and source.name in self._parameters:
            name = f"{source.name}_quantize"
            data, low, high = (Node(None, name + end) for end in ("", "_min", "_max"))
            return Entry(data, 0), Entry(low, 0), Entry(high, 0)
        suffix = ""
        if source.op is not None:
            part = source.output_parts()[entry.output] if source.op.names_outputs else entry.output
            suffix = f"_{part}"
        name = f"{source.name}{suffix}_quantize"
        made = _node(_QUANTIZE, name, {"out_type": self._dtype}, [self.in_float(entry)])
        return Entry(made, 0), Entry(made, 1), Entry(made, 2)


def _node(name: str, node: str, attrs: dict[str, str], inputs: list[Entry]) -> Node:
    return Node(make_operator(name, node, attrs), node, attrs, inputs)


# -- calibration ------------------------------------------------------------------------------


def _to_be_calibrated(heads: Sequence[Entry]) -> list[str]:
    names = (_calibrated_by(node) for node in topological_order(heads))
    return list(dict.fromkeys(name for name in names if name is not None))


def _calibrated_by(node: Node) -> str | None:
    """Return the name, in the floating-point graph, of the tensor whose range a node needs."""
    match node.op:
        case QuantizeV2():
            source, output = node.inputs[0]
            return source.output_name(output)
        case Requantize():
            return f"{node.name.removeprefix('requantize_')}_output"
        case QuantizedBatchNorm():
            return f"{node.name.removeprefix(_QUANTIZED)}_output"
    return None


def calibrated_graph(symbol: Symbol, ranges: Mapping[str, tuple[float, float]]) -> Symbol:
    """Return a quantized graph with calibrated ranges, which are given by name of the tensor."""
    copies: dict[Node, Node] = {}
    for node in topological_order(symbol._heads):
        inputs = [Entry(copies[source], output) for source, output in node.inputs]
        name = _calibrated_by(node)
        op, attrs = node.op, dict(node.attrs)
        if name is not None and name in ranges and isinstance(op, Calibrated):
            low, high = ranges[name]
            # Six decimals, as std::to_string in MXNet's pass writes them.
            attrs |= {"max_calib_range": f"{high:.6f}", "min_calib_range": f"{low:.6f}"}
            op = make_operator(op.names[0], node.name, attrs)
        copies[node] = Node(op, node.name, attrs, inputs, list(node.versions))
        copies[node].updates = node.updates
    return Symbol(tuple(Entry(copies[node], output) for node, output in symbol._heads))
