"""Shape and dtype inference over a graph, in both directions, to a fixpoint."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from ..errors import AttributeValueError, MXNetError, ShapeError, TypeInferenceError
from ..ndarray.np_shape import is_np_shape
from ..ops import Operator
from ..types import (
    DTYPE_NAMES,
    MAX_RANK,
    NO_ELEMENTS,
    DType,
    Shape,
    is_known,
    merge_dtypes,
    merge_shapes,
    to_dtype,
    with_known_zeros,
    with_plain_zeros,
)
from .nodes import Entry, Node, topological_order

__all__ = ["GraphSpecs", "infer_dtypes", "infer_graph", "infer_shapes"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class GraphSpecs:
    """What inference found out, for every output of every node.

    Attributes:
        nodes: all nodes, inputs first.
        shapes: shapes of each node's outputs; 0 and None stand for what is unknown.
        dtypes: dtypes of each node's outputs; None if unknown.
    """

    nodes: tuple[Node, ...]
    shapes: Mapping[Node, Sequence[Shape | None]]
    dtypes: Mapping[Node, Sequence[DType | None]]

    def shape(self, entry: Entry) -> Shape | None:
        """Return the shape of one output."""
        return self.shapes[entry.node][entry.output]

    def dtype(self, entry: Entry) -> DType | None:
        """Return the dtype of one output."""
        return self.dtypes[entry.node][entry.output]


def infer_graph(
    heads: Iterable[Entry],
    known_shapes: Mapping[str, Shape],
    known_dtypes: Mapping[str, DType],
    partial: bool = False,
) -> GraphSpecs:
    """Infer shapes and dtypes of everything the heads depend on.

    Args:
        heads: outputs of the graph.
        known_shapes: shapes by variable name; names that the graph does not have are ignored.
        known_dtypes: dtypes by variable name; float32 is the default if nothing else decides.
        partial: leave unknown what cannot be inferred, instead of raising or using the default.

    Raises:
        ShapeError: shapes contradict each other, or (not ``partial``) stay unknown.
        TypeInferenceError: dtypes contradict each other.
    """
    nodes = topological_order(heads)
    shapes = infer_shapes(nodes, known_shapes)
    if not partial:
        _refuse_unknown_shapes(shapes)
    # ``NO_ELEMENTS`` matters to inference alone; from here on a length of 0 is one.
    for found in shapes.values():
        found[:] = [shape and with_plain_zeros(shape) for shape in found]
    dtypes = infer_dtypes(nodes, known_dtypes, default=None if partial else to_dtype("float32"))
    return GraphSpecs(tuple(nodes), shapes, dtypes)


def infer_shapes(
    nodes: Sequence[Node],
    known: Mapping[str, Shape],
    entries: Iterable[tuple[Entry, Shape | None]] = (),
) -> dict[Node, list[Shape | None]]:
    """Infer the shapes of all outputs of nodes in topological order; unknown ones may remain.

    What is known is given by name of the variable and, of other nodes, by ``entries``.
    """
    system = _System(
        nodes,
        infer=_infer_np_shapes if is_np_shape() else lambda op, *known: op.infer_shape(*known),
        merge=merge_shapes,
        complete=is_known,
        error=ShapeError,
        what="shape",
    )
    for node in nodes:
        if node.is_variable:
            system.assume(node, _assumed_shape(node, known.get(node.name)))
    system.assume_entries(entries)
    system.solve()
    return system.values


def _infer_np_shapes(
    op: Operator, inputs: list[Shape | None], outputs: list[Shape | None]
) -> tuple[list[Shape | None], list[Shape | None]]:
    """Infer in np-shape mode, in which a 0 that follows from known shapes is a known length."""
    inputs, outputs = op.infer_shape(inputs, outputs)
    if all(map(is_known, inputs)):
        outputs = [shape and with_known_zeros(shape) for shape in outputs]
    return inputs, outputs


def infer_dtypes(
    nodes: Sequence[Node],
    known: Mapping[str, DType],
    default: DType | None = None,
    entries: Iterable[tuple[Entry, DType | None]] = (),
) -> dict[Node, list[DType | None]]:
    """Infer the dtypes of all outputs of nodes in topological order.

    What is known is given as for ``infer_shapes``. With a ``default``, each variable that is still
    unknown takes it, in turn, and what follows is inferred before the next.
    """
    system = _System(
        nodes,
        infer=lambda op, inputs, outputs: op.infer_type(inputs, outputs),
        merge=merge_dtypes,
        complete=lambda dtype: dtype is not None,
        error=TypeInferenceError,
        what="dtype",
    )
    for node in nodes:
        if node.is_variable:
            given = known.get(node.name)
            system.assume(node, _declared_dtype(node) if given is None else given)
    system.assume_entries(entries)
    system.solve()
    if default is not None:
        # In turn, because the default of one may decide on others: a weight follows its data.
        for node in nodes:
            if node.is_variable and system.values[node][0] is None:
                system.assume(node, default)
                system.solve()
    return system.values


class _System(Generic[T]):
    """Unknowns at every output, and one rule (an operator's inference) at every node.

    A rule runs when a shape or dtype next to it has become known. Sweeps alternate between forward
    and backward, so that one sweep can propagate a fact through the whole graph.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        infer: Callable[
            [Operator, list[T | None], list[T | None]], tuple[list[T | None], list[T | None]]
        ],
        merge: Callable[[T | None, T | None], T | None],
        complete: Callable[[T | None], bool],
        error: type[MXNetError],
        what: str,
    ) -> None:
        self.values: dict[Node, list[T | None]] = {
            node: [None] * node.output_count() for node in nodes
        }
        self._nodes = nodes
        self._positions = {node: position for position, node in enumerate(nodes)}
        self._infer = infer
        self._merge = merge
        self._complete = complete
        self._error = error
        self._what = what
        self._neighbours = _neighbours(nodes)
        self._dirty = {node for node in nodes if not node.is_variable}
        self._direction = 1
        self._sweep: list[int] = []
        """Heap of positions still ahead in this sweep, negative in a backward one."""

    def assume(self, variable: Node, value: T | None) -> None:
        """Set the value of a variable."""
        if value is not None:
            self.values[variable][0] = value
            self._dirty.update(self._neighbours[variable])

    def assume_entries(self, entries: Iterable[tuple[Entry, T | None]]) -> None:
        """Merge what is known into the values of any outputs."""
        for (node, output), value in entries:
            self.values[node][output] = self._merge(self.values[node][output], value)

    def solve(self) -> None:
        """Apply the rules until nothing changes."""
        while self._dirty:
            self._sweep = [self._direction * self._positions[node] for node in self._dirty]
            heapq.heapify(self._sweep)
            while self._sweep:
                node = self._nodes[abs(heapq.heappop(self._sweep))]
                self._dirty.remove(node)
                self._apply(node)
            self._direction = -self._direction

    def _wake(self, node: Node, rule: Node) -> None:
        """Have a node's rule applied: in this sweep if it lies ahead of ``rule``, else the next."""
        if node is rule or node in self._dirty or node.is_variable:
            return
        self._dirty.add(node)
        if (self._positions[node] - self._positions[rule]) * self._direction > 0:
            heapq.heappush(self._sweep, self._direction * self._positions[node])

    def _apply(self, node: Node) -> None:
        op = node.op
        assert op is not None
        inputs = [self.values[source][output] for source, output in node.inputs]
        outputs = list(self.values[node])
        try:
            # Copies, because operators may change the lists and the originals are compared below.
            found_inputs, found_outputs = self._infer(op, list(inputs), list(outputs))
        except self._error as error:
            raise self._error(f"{_title(node)}: {error}") from None
        changed = False
        names = op.input_names()
        for position, (source, output) in enumerate(node.inputs):
            if _is_news(found_inputs[position], inputs[position]):
                changed |= self._learn(
                    node, source, output, names[position], found_inputs[position]
                )
        for output, found in enumerate(found_outputs):
            if _is_news(found, outputs[output]):
                self._learn(node, node, output, node.output_parts()[output], found)
        # ``_wake`` never wakes the rule that has learned. If it found inputs from outputs, it may
        # find more outputs from these inputs.
        if changed and not all(map(self._complete, (*found_inputs, *found_outputs))):
            self._dirty.add(node)

    def _learn(self, rule: Node, source: Node, output: int, name: str, found: T | None) -> bool:
        """Merge what a rule found into an unknown; return whether that changed it."""
        old = self.values[source][output]
        try:
            new = self._merge(old, found)
        except self._error:
            raise self._error(
                f"{_title(rule)}: {name} has {self._what} {old}, expected {found}"
            ) from None
        if not _is_news(new, old):
            return False
        self.values[source][output] = new
        # The writer, and all readers: facts flow in both directions.
        for node in (source, *self._neighbours[source]):
            self._wake(node, rule)
        return True


def _is_news(found: T | None, old: T | None) -> bool:
    # NumPy holds dtype("float64") and None to be equal.
    return (found is None) is not (old is None) or found != old


def _neighbours(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return the nodes that read each node."""
    readers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source, _ in node.inputs:
            readers[source].append(node)
    return readers


def _title(node: Node) -> str:
    assert node.op is not None
    return f"{node.op.names[0]} {node.name!r}"


def _assumed_shape(variable: Node, given: Shape | None) -> Shape | None:
    """Return the shape given, completed by the one that the variable declares."""
    given = None if given is None else _of_mode(given)
    # As in MXNet, a complete shape wins over a declared one, whatever that is.
    declared = None if is_known(given) else _declared_shape(variable)
    try:
        shape = merge_shapes(given, declared)
    except ShapeError:
        raise ShapeError(
            f"variable {variable.name!r} has shape {given}, expected {declared} (its __shape__)"
        ) from None
    if shape and (len(shape) > MAX_RANK or max(shape) >= 2**63):
        raise ShapeError(
            f"variable {variable.name!r} has {len(shape)} dimensions, the longest of {max(shape)}; "
            f"expected at most {MAX_RANK}, each below 2**63"
        )
    return shape


def _declared_shape(variable: Node) -> Shape | None:
    text = variable.attrs.get("__shape__")
    if text is None:
        return None
    dims_text = [dim.strip() for dim in text.strip().strip("()[]").split(",")]
    try:
        # Python 2 wrote (8L, 3L).
        dims = tuple(int(dim.rstrip("L")) for dim in dims_text if dim)
    except ValueError:
        raise AttributeValueError(
            f"variable {variable.name!r}: __shape__ is {text[:80]!r}; expected a shape as '(2, 3)'"
        ) from None
    return _of_mode(dims)


def _of_mode(shape: Shape) -> Shape | None:
    """Return a shape for inference.

    In np-shape mode () is a scalar, 0 a length and -1 an unknown one; else () says nothing, and
    both 0 and -1 are unknown lengths.
    """
    if is_np_shape():
        return tuple(max(dim, 0) if dim else NO_ELEMENTS for dim in shape)
    return tuple(max(dim, 0) for dim in shape) or None


def _declared_dtype(variable: Node) -> DType | None:
    text = variable.attrs.get("__dtype__")
    if text is None or text.strip() == "-1":
        return None
    try:
        return to_dtype(int(text))
    except (ValueError, TypeInferenceError):
        raise AttributeValueError(
            f"variable {variable.name!r}: __dtype__ is {text[:80]!r}; expected one of MXNet's "
            f"dtype codes, 0 to {len(DTYPE_NAMES) - 1}"
        ) from None


def _refuse_unknown_shapes(shapes: Mapping[Node, Sequence[Shape | None]]) -> None:
    unknown = [node for node, outputs in shapes.items() if not all(map(is_known, outputs))]
    if not unknown:
        return
    variables = [node for node in unknown if node.is_variable] or unknown[:1]
    listed = ", ".join(f"{node.name}: {shapes[node][0] or ()}" for node in variables[:10])
    raise ShapeError(
        f"cannot infer the shape of {listed}{', ...' if len(variables) > 10 else ''} "
        "(0 stands for an unknown dimension); give the shapes of more inputs"
    )
