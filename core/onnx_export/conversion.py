"""Conversion of an operator to ONNX nodes: the table of converters, and their argument ``Call``.

A converter is a function ``(call, op) -> name``, or several names for several outputs, declared
with ``@converts(OperatorClass, ...)``; it holds for derived classes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..errors import MXNetError
from ..ops import Operator
from ..types import DType, Shape
from .graph import BOOL, INT64, Graph, Step, Tensor, onnx_type

__all__ = ["Call", "ConversionError", "Converter", "converter_of", "converts", "inputs_read"]

Converter: TypeAlias = Callable[["Call", Any], "str | Sequence[str]"]
_C = TypeVar("_C", bound=Callable[..., "str | Sequence[str]"])

_converters: dict[type[Operator], Converter] = {}
_reads: dict[type[Operator], tuple[int, ...]] = {}


class ConversionError(MXNetError):
    """ONNX cannot express the symbol; the message names the node, its operator and the reason."""


def converts(*kinds: type[Operator], reads: tuple[int, ...] | None = None) -> Callable[[_C], _C]:
    """Register a function as the converter of operators.

    Args:
        kinds: classes of the operators.
        reads: indices of the inputs needed in inference (not labels, nor inputs that only provide a
            shape); None for all.
    """

    def declare(function: _C) -> _C:
        for kind in kinds:
            if kind in _converters:
                raise ValueError(f"{kind.__name__} has two converters")
            _converters[kind] = function
            if reads is not None:
                _reads[kind] = reads
        return function

    return declare


def converter_of(op: Operator) -> Converter | None:
    """Return the converter of an operator; None if there is none."""
    return next((_converters[kind] for kind in type(op).__mro__ if kind in _converters), None)


def is_convertible(kind: type[Operator]) -> bool:
    """Return whether operators of a class have a converter."""
    return any(base in _converters for base in kind.__mro__)


def inputs_read(op: Operator) -> Sequence[int]:
    """Return the indices of the inputs that an operator needs in inference."""
    if op.is_identity(False):
        return (0,)
    known = next((_reads[kind] for kind in type(op).__mro__ if kind in _reads), None)
    return range(len(op.input_names())) if known is None else known


class Call:
    """An operator of the graph, and methods to emit ONNX nodes for it.

    Attributes:
        name: name of the node.
        inputs: its inputs; those not needed have no name.
        outputs: the expected outputs.
    """

    def __init__(
        self,
        graph: Graph,
        op: Operator,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self._op = op
        self._graph = graph

    @property
    def data(self) -> Tensor:
        """The first input."""
        return self.inputs[0]

    @property
    def output(self) -> Tensor:
        """The first output."""
        return self.outputs[0]

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [one.name for one in self.inputs]

    def cannot(self, why: str) -> ConversionError:
        """Return the error that this node cannot be expressed in ONNX, with the reason."""
        return ConversionError(
            f"{self._op.names[0]} {self.name!r} cannot be written as ONNX: {why}"
        )

    # -- nodes ------------------------------------------------------------------------------

    def emit(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return its name."""
        return self._graph.emit(kind, *inputs, hint=self.name, **attributes)[0]

    def emit_several(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs; return their names."""
        return self._graph.emit(kind, *inputs, hint=self.name, outputs=outputs, **attributes)

    def repeat(self, count: int, value: str, dtype: int, step: Step) -> str:
        """Return what a loop makes of a tensor; see ``Graph.repeat``."""
        return self._graph.repeat(count, value, dtype, step, self.name)

    def constant(self, values: Any, dtype: DType | str) -> str:
        """Return a constant."""
        return self._graph.constant(values, dtype, self.name)

    def integers(self, *values: int) -> str:
        """Return a constant vector of int64."""
        return self.constant(list(values), INT64)

    def number(self, value: float) -> str:
        """Return a constant of the first output's dtype, converted like in MXNet."""
        dtype = self.output.dtype
        if dtype.kind in "iu":
            return self.constant(np.array(int(value)).astype(dtype), dtype)
        return self.constant(value, dtype)

    def shape_vector(self, tensor: Tensor) -> str:
        """Return the shape of a tensor, as a vector."""
        return self._graph.shape_vector(tensor, self.name)

    # -- helpers of several families ---------------------------------------------------------

    def cast(self, name: str, dtype: DType) -> str:
        """Return a tensor cast to a dtype."""
        return self.emit("Cast", name, to=onnx_type(dtype))

    def as_dtype(self, tensor: Tensor, dtype: DType) -> str:
        """Return a tensor cast to a dtype, unless it has this dtype."""
        return tensor.name if tensor.dtype == dtype else self.cast(tensor.name, dtype)

    def transposed(self, name: str, axes: Sequence[int]) -> str:
        """Return a tensor with permuted axes, or the tensor itself if the order does not change."""
        if list(axes) == list(range(len(axes))):
            return name
        return self.emit("Transpose", name, perm=list(axes))

    def reshaped(self, name: str, target: Tensor, source: Tensor | None = None) -> str:
        """Return a tensor reshaped to the shape of another; ``source`` describes its present
        shape."""
        if source is not None and (source.shape, source.dynamic) == (target.shape, target.dynamic):
            return name
        if sum(target.dynamic) > 1:
            return self.emit("Reshape", name, self.shape_vector(target))
        lengths = [
            -1 if dynamic else length
            for length, dynamic in zip(target.shape, target.dynamic, strict=True)
        ]
        return self.emit("Reshape", name, self.integers(*lengths))

    def viewed(self, name: str, shape: Shape, dynamic: tuple[bool, ...] | None = None) -> str:
        """Return a tensor reshaped to a shape, by default one that does not depend on the batch
        size."""
        return self.reshaped(
            name, Tensor("", shape, dynamic or (False,) * len(shape), self.output.dtype)
        )

    def expanded(self, name: str, target: Tensor) -> str:
        """Return a tensor broadcast to the shape of another."""
        return self.emit("Expand", name, self.shape_vector(target))

    def sliced(self, name: str, region: Sequence[slice], source: Tensor) -> str:
        """Return a region of a tensor, or the tensor itself if the region is all of it."""
        cuts = [
            (axis, *_bounds(part, source.shape[axis]))
            for axis, part in enumerate(region)
            if part.indices(source.shape[axis]) != (0, source.shape[axis], 1)
        ]
        if not cuts:
            return name
        axes, starts, stops, steps = (self.integers(*column) for column in zip(*cuts, strict=True))
        return self.emit("Slice", name, starts, stops, axes, steps)

    def static_length(self, tensor: Tensor, axis: int) -> int:
        """Return the length of an axis, which must not depend on the batch size."""
        if tensor.dynamic[axis]:
            raise self.cannot(f"the length of axis {axis} depends on the batch size")
        return tensor.shape[axis]

    def is_true(self, tensor: Tensor) -> str:
        """Return a bool tensor that is True where a tensor is not 0."""
        return self.emit("Cast", tensor.name, to=BOOL)

    def indices(self, tensor: Tensor, size: int, mode: str) -> str:
        """Return numbers as int64 indices of an axis, clipped or wrapped like MXNet's."""
        whole = self.as_dtype(tensor, INT64)
        if mode == "wrap":
            return self.emit("Mod", whole, self.constant(size, INT64))
        if mode == "clip":
            ends = self.constant(0, INT64), self.constant(size - 1, INT64)
            return self.emit("Clip", whole, *ends)
        return whole


def _bounds(part: slice, length: int) -> tuple[int, int, int]:
    start, stop, step = part.indices(length)
    # A slice backwards to the first element stops at -1, which ONNX would take as the last one.
    return start, -length - 1 if stop < 0 else stop, step
