"""How one operator becomes nodes of ONNX: what its converter is given, and the table of them all.

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
from .graph import INT64, Graph, Tensor, onnx_type

__all__ = ["Call", "ConversionError", "Converter", "converter_of", "converts", "inputs_read"]

Converter: TypeAlias = Callable[["Call", Any], "str | Sequence[str]"]
_C = TypeVar("_C", bound=Callable[..., "str | Sequence[str]"])

_converters: dict[type[Operator], Converter] = {}
_reads: dict[type[Operator], tuple[int, ...]] = {}


class ConversionError(MXNetError):
    """ONNX cannot say what the symbol does; the message names the node, its operator and why."""


def converts(*kinds: type[Operator], reads: tuple[int, ...] | None = None) -> Callable[[_C], _C]:
    """Declare the converter of operators.

    Args:
        kinds: their classes.
        reads: the inputs that matter in inference (no label, nothing that only lends its shape);
            None for all.
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
    """Return the converter of an operator, None where there is none."""
    return next((_converters[kind] for kind in type(op).__mro__ if kind in _converters), None)


def inputs_read(op: Operator) -> Sequence[int]:
    """Return which inputs of an operator matter in inference."""
    if op.is_identity(False):
        return (0,)
    known = next((_reads[kind] for kind in type(op).__mro__ if kind in _reads), None)
    return range(len(op.input_names())) if known is None else known


class Call:
    """An operator of the graph, and the means to say it in ONNX.

    Attributes:
        name: of the node.
        inputs: its inputs; what is not read has no name.
        outputs: what its outputs will be.
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
        """Return the error that says why this node has no ONNX form."""
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

    def constant(self, values: Any, dtype: DType | str) -> str:
        """Return a constant."""
        return self._graph.constant(values, dtype, self.name)

    def integers(self, *values: int) -> str:
        """Return a constant vector of int64."""
        return self.constant(list(values), INT64)

    def number(self, value: float) -> str:
        """Return a constant number of the first output's dtype, as MXNet converts it to that."""
        dtype = self.output.dtype
        if dtype.kind in "iu":
            return self.constant(np.array(int(value)).astype(dtype), dtype)
        return self.constant(value, dtype)

    def shape_vector(self, tensor: Tensor) -> str:
        """Return the shape of a tensor, as a vector."""
        return self._graph.shape_vector(tensor, self.name)

    # -- what several families need ----------------------------------------------------------

    def cast(self, name: str, dtype: DType) -> str:
        """Return elements as another dtype."""
        return self.emit("Cast", name, to=onnx_type(dtype))

    def as_dtype(self, tensor: Tensor, dtype: DType) -> str:
        """Return a tensor with a dtype; itself where it has it."""
        return tensor.name if tensor.dtype == dtype else self.cast(tensor.name, dtype)

    def transposed(self, name: str, axes: Sequence[int]) -> str:
        """Return axes in another order; itself where it is the same."""
        if list(axes) == list(range(len(axes))):
            return name
        return self.emit("Transpose", name, perm=list(axes))

    def reshaped(self, name: str, target: Tensor, source: Tensor | None = None) -> str:
        """Return a tensor with the shape of another; ``source`` tells of the one it has."""
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
        """Return a tensor with a shape, by default with no length that depends on the batch."""
        return self.reshaped(
            name, Tensor("", shape, dynamic or (False,) * len(shape), self.output.dtype)
        )

    def expanded(self, name: str, target: Tensor) -> str:
        """Return a tensor repeated to the shape of another."""
        return self.emit("Expand", name, self.shape_vector(target))

    def sliced(self, name: str, region: Sequence[slice], source: Tensor) -> str:
        """Return a region of a tensor; itself where it is the whole."""
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
        """Return the length of an axis, which may not depend on the batch."""
        if tensor.dynamic[axis]:
            raise self.cannot(f"the length of axis {axis} depends on the batch size")
        return tensor.shape[axis]

    def is_true(self, tensor: Tensor) -> str:
        """Return where a tensor is not 0, as bool."""
        return self.emit("Cast", tensor.name, to=9)

    def indices(self, tensor: Tensor, size: int, mode: str) -> str:
        """Return numbers as int64 indices of an axis, those outside brought in as MXNet does."""
        whole = self.as_dtype(tensor, INT64)
        if mode == "wrap":
            return self.emit("Mod", whole, self.constant(size, INT64))
        if mode == "clip":
            ends = self.constant(0, INT64), self.constant(size - 1, INT64)
            return self.emit("Clip", whole, *ends)
        return whole


def _bounds(part: slice, length: int) -> tuple[int, int, int]:
    start, stop, step = part.indices(length)
    return start, -length - 1 if stop < 0 else stop, step
