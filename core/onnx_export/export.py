"""Export of a symbol and its parameters to an ONNX model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from ..device import cpu
from ..errors import MXNetError
from ..graph.infer import GraphSpecs, infer_graph
from ..graph.nodes import Entry, Node, topological_order
from ..libinfo import __version__
from ..ndarray.execute import execute
from ..ops import Operator
from ..symbol import Symbol
from ..symbol.symbol import group
from ..types import DType, Shape, is_known
from .conversion import Call, ConversionError, converter_of, inputs_read
from .graph import Graph, Tensor

__all__ = ["Export", "export_onnx"]

_FLOAT32 = np.dtype("float32")
_MOST_NAMED = 10
_LARGEST_MODEL = 2**31 - 1
"""Maximum size of a protocol buffer in bytes."""

Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclasses.dataclass(frozen=True)
class Export:
    """An ONNX model.

    Attributes:
        model: the ONNX model; its inputs are those needed in inference, and all names are MXNet's.
        fixed_batch: why the model accepts only the batch size of the given shapes; None if it
            accepts any.
        left_out: outputs that need more than the inputs, usually a label.
    """

    model: ModelProto
    fixed_batch: str | None
    left_out: tuple[str, ...]


def export_onnx(
    symbol: Symbol,
    parameters: Arrays,
    inputs: Mapping[str, Shape],
    *,
    dtypes: Mapping[str, DType] | None = None,
    batch_axes: Mapping[str, int] | None = None,
    more_inputs: Iterable[str] = (),
) -> Export:
    """Return the ONNX model of what a symbol computes in inference.

    Only the length of each input's batch axis may differ when the model runs. If the symbol itself
    contains a batch size, so does the model.

    Args:
        symbol: its outputs are the model's.
        parameters: arguments and auxiliary states by name; unused ones are skipped.
        inputs: shapes by name.
        dtypes: dtypes of inputs that cannot be inferred; float32 by default.
        batch_axes: batch axes of the inputs for which it is not axis 0; -1 for no batch axis.
        more_inputs: further variables that are inputs, whose shapes are inferred from the others.

    Raises:
        ConversionError: ONNX cannot express an operator.
        ShapeError: shapes contradict each other.
    """
    axes = {name: 0 for name in inputs} | dict(batch_axes or {})
    given = _Given(
        _inferable(symbol, {*parameters, *inputs, *more_inputs}),
        parameters,
        dict(inputs),
        dict(dtypes or {}),
    )
    left_out = tuple(name for name in symbol.list_outputs() if name not in given.output_names)
    _refuse_unknown_operators(given.order)
    source = next((name for name in inputs if 0 <= axes[name] < len(inputs[name])), None)
    if source is None:
        exporter = _Exporter(given, given.specs(inputs), None, 1, None)
        return Export(exporter.model(), "no input has a batch axis", left_out)
    batch = inputs[source][axes[source]]
    # Shapes are inferred for two batch sizes: lengths that differ depend on the batch.
    larger = {name: _with_one_more(shape, axes[name], batch) for name, shape in inputs.items()}
    specs = given.specs(inputs)
    try:
        exporter = _Exporter(given, specs, given.specs(larger), batch, (source, axes[source]))
        return Export(exporter.model(), None, left_out)
    except MXNetError as error:
        return Export(_Exporter(given, specs, None, batch, None).model(), str(error), left_out)


def _inferable(symbol: Symbol, known: set[str]) -> Symbol:
    """Return the outputs of a symbol that depend only on the known variables."""
    missing: dict[str, Node] = {}
    wanted = []
    for number, head in enumerate(symbol.heads):
        unknown = [node for node in _order([head]) if node.is_variable and node.name not in known]
        if unknown:
            missing[unknown[0].name] = unknown[0]
        else:
            wanted.append(number)
    if not wanted:
        raise ConversionError(
            f"no output can be computed: {', '.join(map(repr, missing))} is neither a "
            f"parameter nor an input; add it to one of them"
        )
    return group([symbol[number] for number in wanted])


def _order(heads: Sequence[Entry]) -> list[Node]:
    """Return the nodes that heads depend on in inference, inputs first."""
    wanted = {head.node for head in heads}
    nodes = topological_order(heads)
    for node in reversed(nodes):
        if node in wanted and node.op is not None:
            wanted.update(node.inputs[one].node for one in inputs_read(node.op))
    return [node for node in nodes if node in wanted]


def _with_one_more(shape: Shape, axis: int, batch: int) -> Shape:
    if not 0 <= axis < len(shape) or shape[axis] != batch:
        return shape
    return (*shape[:axis], batch + 1, *shape[axis + 1 :])


@dataclasses.dataclass(frozen=True)
class _Given:
    """The symbol to export, and its parameters; all other variables are inputs."""

    symbol: Symbol
    parameters: Arrays
    inputs: Mapping[str, Shape]
    input_dtypes: Mapping[str, DType]

    @property
    def order(self) -> list[Node]:
        """The nodes, inputs first."""
        return _order(self.symbol.heads)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self.symbol.list_outputs()

    def specs(self, inputs: Mapping[str, Shape]) -> GraphSpecs:
        """Return the shapes and dtypes of all entries; those of labels may stay unknown."""
        parameters = self.parameters.items()
        shapes = {name: tuple(values.shape) for name, values in parameters} | dict(inputs)
        dtypes = {name: values.dtype for name, values in parameters} | dict(self.input_dtypes)
        return infer_graph(self.symbol.heads, shapes, dtypes, partial=True)


def _refuse_unknown_operators(nodes: Iterable[Node]) -> None:
    """Raise ConversionError for operators without a converter, naming them and their nodes."""
    missing: dict[str, list[str]] = {}
    for node in nodes:
        op = node.op
        if op is not None and not _is_converted(op):
            missing.setdefault(op.names[0], []).append(node.name)
    if missing:
        listed = "; ".join(_listed(operator, names) for operator, names in missing.items())
        raise ConversionError(f"there is no way to write these operators as ONNX: {listed}")


def _listed(operator: str, nodes: Sequence[str]) -> str:
    shown, rest = nodes[:_MOST_NAMED], len(nodes) - _MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"{operator} ({', '.join(shown)}{more})"


def _is_converted(op: Operator) -> bool:
    return op.is_identity(False) or _is_folded(op) or converter_of(op) is not None


def _is_folded(op: Operator) -> bool:
    """Return whether an operator has no inputs, so that its value can be computed now."""
    return not op.input_names() and not op.uses_random


class _Exporter:
    """Converts the nodes in order; ``tensors`` holds the tensor of each output."""

    def __init__(
        self,
        given: _Given,
        specs: GraphSpecs,
        larger: GraphSpecs | None,
        batch: int,
        source: tuple[str, int] | None,
    ) -> None:
        self._given = given
        self._specs = specs
        self._larger = larger
        self._batch = batch
        self._order = given.order
        self._tensors: dict[Entry, Tensor] = {}
        self._inputs: list[Tensor] = []
        names = [node.name for node in self._order if node.is_variable]
        self._graph = Graph(batch, source, names)

    def model(self) -> ModelProto:
        """Return the model."""
        for node in self._order:
            if node.op is None:
                self._add_variable(node)
            else:
                self._add_operator(node, node.op)
        size = sum(values.nbytes for values in self._given.parameters.values())
        if size > _LARGEST_MODEL:
            raise ConversionError(
                f"the parameters are {size} bytes; an ONNX model in one file has {_LARGEST_MODEL} "
                f"at most"
            )
        outputs = [self._output(head, name) for head, name in self._heads()]
        return self._graph.to_model(self._inputs, outputs, ("modserve", __version__))

    def _heads(self) -> Iterable[tuple[Entry, str]]:
        return zip(self._given.symbol.heads, self._given.output_names, strict=True)

    def _output(self, head: Entry, name: str) -> Tensor:
        """Return an output of the model: a separate tensor under the symbol's name for it."""
        tensor = self._made(head)
        return dataclasses.replace(tensor, name=self._graph.as_output(tensor.name, name))

    def _add_variable(self, node: Node) -> None:
        name, entry = node.name, Entry(node, 0)
        values = self._given.parameters.get(name)
        if name in self._given.inputs or values is None:
            tensor = dataclasses.replace(self._tensor(entry), name=name)
            self._inputs.append(tensor)
        else:
            dtype = self._specs.dtype(entry) or values.dtype
            values = values.astype(dtype, copy=False)
            self._graph.parameter(name, values)
            tensor = Tensor(name, values.shape, (False,) * values.ndim, dtype, values)
        self._tensors[entry] = tensor

    def _add_operator(self, node: Node, op: Operator) -> None:
        outputs = [self._tensor(Entry(node, one)) for one in range(node.visible_outputs())]
        read = inputs_read(op)
        inputs = [
            self._made(entry) if number in read else self._unread(entry)
            for number, entry in enumerate(node.inputs)
        ]
        call = Call(self._graph, op, node.name, inputs, outputs)
        is_constant = self._can_fold(op, [inputs[one] for one in read], outputs)
        if is_constant and not self._is_same(op, inputs, outputs):
            self._fold(node, op, inputs, outputs)
            return
        values = inputs[0].values if is_constant else None
        if op.is_identity(False):
            made: Sequence[str] = [call.reshaped(inputs[0].name, outputs[0], inputs[0])]
        else:
            converter = converter_of(op)
            if converter is None:
                raise call.cannot("its length depends on the batch size")
            found = converter(call, op)
            made = [found] if isinstance(found, str) else found
        for number, name in enumerate(made):
            self._tensors[Entry(node, number)] = dataclasses.replace(
                outputs[number], name=name, values=values
            )

    def _is_same(self, op: Operator, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bool:
        """Return whether a parameter passes as it is, and so keeps its name."""
        return op.is_identity(False) and inputs[0].shape == outputs[0].shape

    def _can_fold(self, op: Operator, read: Sequence[Tensor], outputs: Sequence[Tensor]) -> bool:
        constant = all(one.values is not None for one in read)
        return constant and not op.uses_random and all(one.is_static for one in outputs)

    def _fold(
        self, node: Node, op: Operator, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        """Compute the outputs of a node that depends only on parameters (constant folding)."""
        given = [np.empty(one.shape, one.dtype) for one in outputs]
        read = [
            np.zeros(one.shape, one.dtype) if one.values is None else one.values for one in inputs
        ]
        found = execute(op, cpu(), read, given)
        for number, (tensor, values) in enumerate(zip(outputs, found, strict=False)):
            name = self._graph.constant(values, values.dtype, node.name)
            self._tensors[Entry(node, number)] = dataclasses.replace(
                tensor, name=name, values=values
            )

    def _made(self, entry: Entry) -> Tensor:
        """Return the tensor of an output."""
        if entry not in self._tensors:
            name = entry.node.output_name(entry.output)
            raise ConversionError(f"the output {name!r} cannot be written as ONNX")
        return self._tensors[entry]

    def _unread(self, entry: Entry) -> Tensor:
        """Return the description of an input that is not needed."""
        shape = self._specs.shape(entry)
        return self._tensor(entry) if is_known(shape) else Tensor("", (), (), _FLOAT32)

    def _tensor(self, entry: Entry) -> Tensor:
        """Return the description of an output by shape inference."""
        shape = self._specs.shape(entry)
        if not is_known(shape):
            raise ConversionError(
                f"the shape of {entry.node.output_name(entry.output)!r} cannot be inferred; "
                f"give the shapes of all inputs"
            )
        dtype = self._specs.dtype(entry) or _FLOAT32
        return Tensor("", shape, self._dynamic(entry, shape), dtype)

    def _dynamic(self, entry: Entry, shape: Shape) -> tuple[bool, ...]:
        """Return which lengths are proportional to the batch size."""
        if self._larger is None:
            return (False,) * len(shape)
        larger = self._larger.shape(entry) or shape
        for here, there in zip(shape, larger, strict=True):
            if here != there and here * (self._batch + 1) != there * self._batch:
                raise ConversionError(
                    f"{entry.node.output_name(entry.output)!r} has {here} elements along an axis "
                    f"for a batch of {self._batch} and {there} for {self._batch + 1}: no multiple"
                )
        return tuple(here != there for here, there in zip(shape, larger, strict=True))
