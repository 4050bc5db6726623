"""The forms of elementwise operators. The functions they compute are rows of tables.

Unary        f(data)                      elemwise_unary.UNARY
Elementwise  f(lhs, rhs), equal shapes    elemwise_binary.BINARY
Broadcast    f(lhs, rhs), broadcast       elemwise_binary.BINARY
Scalar       f(data, scalar)              elemwise_binary.BINARY
Reversed     f(scalar, data)              elemwise_binary.BINARY
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..capabilities import arrays as kinds
from ..capabilities.functions import Arithmetic, Pointwise, linear
from ..capabilities.kinds import implements
from ..capabilities.quantized import QuantizedForm
from ..errors import TypeInferenceError
from ..types import Array, DType, Shape, is_floating, is_half, merge_dtypes
from .attributes import attribute
from .binary_row import BinaryRow, Slope
from .broadcasting import infer_broadcast
from .derivatives import Functions, Tensor
from .derivatives import sum_to as gradient_of_shape
from .elemwise_binary import BINARY
from .elemwise_unary import UNARY
from .operator import Operator, Reads, Run
from .registry import declares_attributes, get_operator, register
from .sparse_elementwise import of_stored_values, scaling_kernel
from .sparse_kernel import SparseKernel
from .storage_rules import of_first
from .summation import sum_to
from .unary_row import UnaryRow

__all__ = ["Broadcast", "Elementwise", "Reversed", "Scalar", "Unary", "multiply_into"]

_INT64, _FLOAT64 = np.dtype("int64"), np.dtype("float64")


def multiply_into(run: Run, x: Array, factor: Array | float, out: Array) -> None:
    """Write ``x * factor``; a factor of 1 costs a copy, or nothing if ``out`` is ``x``."""
    if isinstance(factor, float) and factor == 1.0:
        run.xp.copyto(out, x, casting="unsafe")
    else:
        run.xp.multiply(x, factor, out=out, casting="unsafe")


def _widened(run: Run, x: Array) -> Array:
    """Return a copy in which a function of several steps rounds only its result."""
    wide = run.scratch(x.shape, "float32" if is_half(x.dtype) else "float64")
    run.xp.copyto(wide, x)
    return wide


@implements(kinds.POINTWISE)
class Unary(Operator):
    """A function of each element of ``data``, which has any shape; the output has its dtype."""

    row: ClassVar[UnaryRow]

    def output_storage(self, inputs: Sequence[str]) -> str:
        return of_first(inputs) if self.row.keeps_zeros else "default"

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return of_stored_values(self, inputs[0]) if self.row.keeps_zeros else None

    def pointwise(self) -> Pointwise | None:
        return self.row.pointwise

    def is_nonnegative(self) -> bool:
        return self.row.is_nonnegative or super().is_nonnegative()

    def fills_with(self) -> float | None:
        return self.row.fills_with

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        slope = self.row.derivative
        return None if slope is None else [out_grads[0] * slope(f, inputs[0], outputs[0])]

    def is_elementwise(self) -> bool:
        return True

    def backward_reads(self) -> Reads:
        if not callable(self.row.slope):
            return Reads(out_grads=self.row.slope is not None)
        return Reads(outputs=(0,)) if self.row.slope_of == "output" else Reads(inputs=(0,))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return () if self.row.slope is None else (0,)

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, y = inputs[0], outputs[0]
        if self.row.keeps_integers or (is_floating(x.dtype) and not is_half(x.dtype)):
            self.row.function(run, x, y)
            return
        work = _widened(run, x)
        self.row.function(run, work, work)
        run.xp.copyto(y, work, casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        slope = self.row.slope
        if callable(slope):
            slope = self._slope(run, outputs[0] if self.row.slope_of == "output" else inputs[0])
        elif slope is not None and not is_floating(out_grads[0].dtype):
            slope = float(int(slope))
        multiply_into(run, out_grads[0], slope, in_grads[0])

    def _slope(self, run: Run, source: Array) -> Array:
        """Return the derivative; of integers, as in MXNet, its whole part."""
        assert callable(self.row.slope)
        if is_half(source.dtype):
            return self.row.slope(run, _widened(run, source))
        if is_floating(source.dtype):
            return self.row.slope(run, source)
        whole = run.scratch(source.shape, source.dtype)
        run.xp.copyto(whole, self.row.slope(run, _widened(run, source)), casting="unsafe")
        return whole


def _factor(run: Run, slope: Slope | float, a: Any, b: Any, dtype: DType) -> Array | float:
    """Return the derivative by an operand; of integers, as in MXNet, its whole part."""
    if not isinstance(slope, Slope):
        return slope
    if is_floating(dtype) or not slope.has_fractions:
        found: Array | float = slope.function(run, a, b)
        return found
    operands = [float(x) if isinstance(x, np.generic) else _widened(run, x) for x in (a, b)]
    fractions = slope.function(run, *operands)
    whole = run.scratch(fractions.shape, dtype)
    run.xp.copyto(whole, fractions, casting="unsafe")
    return whole


class _Binary(Operator):
    row: ClassVar[BinaryRow]

    def _slopes(self) -> tuple[Slope | float | None, ...]:
        """The derivatives by each input; None for an input without gradient."""
        return self.row.lhs, self.row.rhs

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def backward_reads(self) -> Reads:
        slopes = self._slopes()
        read = {i for slope in slopes if isinstance(slope, Slope) for i in slope.reads}
        inputs = tuple(sorted(read & set(range(len(slopes)))))
        return Reads(out_grads=any(slope is not None for slope in slopes), inputs=inputs)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return tuple(i for i, slope in enumerate(self._slopes()) if slope is not None)

    def passes_gradient(self) -> tuple[tuple[int, int], ...]:
        return tuple((0, i) for i, slope in enumerate(self._slopes()) if slope == 1.0)


@implements(kinds.ARITHMETIC)
class _Pair(_Binary):
    def arithmetic(self) -> Arithmetic | None:
        return self.row.arithmetic

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        if self.row.partials is None:
            return None
        (a, b), (y,), (dy,) = inputs, outputs, out_grads
        left = dy * self.row.partials.by_left(f, a, b, y)
        right = dy * self.row.partials.by_right(f, a, b, y)
        return [gradient_of_shape(f, left, a.shape), gradient_of_shape(f, right, b.shape)]


class Elementwise(_Pair):
    """A function of the elements of ``lhs`` and ``rhs``, which have one shape and dtype."""

    def output_storage(self, inputs: Sequence[str]) -> str:
        return self.row.elementwise_storage(inputs)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return self.row.sparse_kernel(inputs)

    def on_bytes(self) -> QuantizedForm | None:
        return self.row.on_bytes

    def is_elementwise(self) -> bool:
        return True

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0), (1, 0))

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.row.function(run, inputs[0], inputs[1], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        # The left gradient may share the head gradient's memory, so it must be written last.
        for target, slope in reversed(list(zip(in_grads, self._slopes(), strict=True))):
            if target is not None:
                factor = _factor(run, slope, inputs[0], inputs[1], out_grads[0].dtype)
                multiply_into(run, out_grads[0], factor, target)


class Broadcast(_Pair):
    """A function of ``lhs`` and ``rhs``, of one dtype, broadcast against each other."""

    def keeps_features(self) -> bool:
        return True

    def output_storage(self, inputs: Sequence[str]) -> str:
        return self.row.broadcast_storage(inputs)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        gives_csr = self.output_storage(inputs) == "csr"
        return scaling_kernel(self.row.function) if gives_csr else None

    def given(self, shapes: Sequence[Shape]) -> Operator:
        lhs, rhs = shapes
        if lhs != rhs or not self.row.elementwise:
            return self
        return get_operator(self.row.elementwise[0])()

    def passes_gradient(self) -> tuple[tuple[int, int], ...]:
        return ()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = infer_broadcast(inputs[0], inputs[1])
        return inputs, [self.expect("output", outputs[0], common)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.row.function(run, inputs[0], inputs[1], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dy = out_grads[0]
        wide = [None if x is None else run.xp.broadcast_to(x, dy.shape) for x in inputs]
        for target, slope in zip(in_grads, self._slopes(), strict=True):
            if target is None:
                continue
            if not isinstance(slope, Slope):
                # A constant factor is applied after the sum, which has fewer elements.
                sum_to(run, dy, target)
                multiply_into(run, target, slope, target)
                continue
            direct = target.shape == dy.shape
            full = target if direct else run.scratch(dy.shape, dy.dtype)
            factor = _factor(run, slope, wide[0], wide[1], dy.dtype)
            multiply_into(run, dy, factor, full)
            if not direct:
                sum_to(run, full, target)


class BroadcastMixed(Broadcast):
    """``Broadcast`` with the type promotion of ``mx.np``: the wider floating dtype, floating over
    integer."""

    def output_storage(self, inputs: Sequence[str]) -> str:
        return "default"

    def given(self, shapes: Sequence[Shape]) -> Operator:
        return self

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        lhs, rhs = inputs
        if lhs is None or rhs is None:
            known = lhs or rhs or outputs[0]
            lhs, rhs = lhs or known, rhs or known
            return [lhs, rhs], [merge_dtypes(outputs[0], known)]
        floating = [dtype for dtype in (lhs, rhs) if is_floating(dtype)]
        if not floating and lhs != rhs:
            raise TypeInferenceError(f"lhs has dtype {lhs}, rhs {rhs}; cast one to the other's")
        common = max(floating, key=lambda dtype: dtype.itemsize) if floating else lhs
        return [lhs, rhs], [self.expect_dtype("output", outputs[0], common)]


@declares_attributes
@implements(kinds.POINTWISE)
class Scalar(_Binary):
    """A function of the elements of ``data``, which has any shape, and a number.

    Bool data gives int64; integer data gives float64 if ``is_int`` is False.
    """

    scalar: float = attribute(
        default=1.0, doc="the number; truncated to an integer for integer data"
    )
    is_int: bool = attribute(default=True, doc="whether the number is an integer")

    def output_storage(self, inputs: Sequence[str]) -> str:
        if self.row.keeps_zeros is not None:
            return of_first(inputs) if self.row.keeps_zeros(self.scalar) else "default"
        return self.row.scalar_storage(inputs)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        keeps_zeros = self.output_storage(inputs) == inputs[0]
        return of_stored_values(self, inputs[0]) if keeps_zeros else None

    def pointwise(self) -> Pointwise | None:
        match self.row.arithmetic:
            case Arithmetic.ADD:
                return linear(1.0, self.scalar)
            case Arithmetic.SUBTRACT:
                return linear(1.0, -self.scalar)
            case Arithmetic.MULTIPLY:
                return linear(self.scalar)
            case Arithmetic.DIVIDE if self.scalar:
                return linear(1 / self.scalar)
        return None

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        if self.row.partials is None:
            return None
        return [out_grads[0] * self.row.partials.by_left(f, inputs[0], self.scalar, outputs[0])]

    def input_names(self) -> tuple[str, ...]:
        return ("data",)

    def _slopes(self) -> tuple[Slope | float | None, ...]:
        return (self.row.lhs,)

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = inputs[0]
        if data is None or is_floating(data) or (data.kind in "iu" and self.is_int):
            return super().infer_type(inputs, outputs)
        wide = _INT64 if data.kind == "b" and self.is_int else _FLOAT64
        return inputs, [self.expect_dtype("output", outputs[0], wide)]

    def is_elementwise(self) -> bool:
        return True

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def _operands(self, data: Array, dtype: DType) -> tuple[Any, Any]:
        return data, _as_number(self.scalar, dtype)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        a, b = self._operands(inputs[0], outputs[0].dtype)
        self.row.function(run, a, b, outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        (slope,), dy = self._slopes(), out_grads[0]
        assert slope is not None
        data = inputs[0]
        if self._divides_gradient and not is_floating(dy.dtype):  # 1 / scalar would be cut to 0.
            self.row.function(run, *self._operands(dy, dy.dtype), in_grads[0])
            return
        if isinstance(slope, Slope) and data is not None and data.dtype != dy.dtype:
            # Integers and a fraction: output and gradient are float64.
            data = run.scratch(data.shape, dy.dtype)
            run.xp.copyto(data, inputs[0])
        factor = _factor(run, slope, *self._operands(data, dy.dtype), dy.dtype)
        multiply_into(run, dy, factor, in_grads[0])

    @property
    def _divides_gradient(self) -> bool:
        """Whether the gradient is divided by the number, as the data is."""
        return self.row.arithmetic is Arithmetic.DIVIDE


class Reversed(Scalar):
    """A function of a number and the elements of ``data``; otherwise as with it on the right."""

    def output_storage(self, inputs: Sequence[str]) -> str:
        return "default"

    def pointwise(self) -> Pointwise | None:
        is_difference = self.row.arithmetic is Arithmetic.SUBTRACT
        return linear(-1.0, self.scalar) if is_difference else None

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        if self.row.partials is None:
            return None
        return [out_grads[0] * self.row.partials.by_right(f, self.scalar, inputs[0], outputs[0])]

    def _slopes(self) -> tuple[Slope | float | None, ...]:
        return (self.row.rhs,)

    @property
    def _divides_gradient(self) -> bool:
        return False

    def backward_reads(self) -> Reads:
        slope = self.row.rhs
        reads_data = isinstance(slope, Slope) and 1 in slope.reads
        return Reads(out_grads=slope is not None, inputs=(0,) if reads_data else ())

    def _operands(self, data: Array, dtype: DType) -> tuple[Any, Any]:
        return _as_number(self.scalar, dtype), data


def _as_number(scalar: float, dtype: DType) -> Any:
    """Return the scalar as MXNet converts it to the output's dtype."""
    if is_floating(dtype):
        return scalar
    return np.array(int(scalar)).astype(dtype)[()]


def _define(
    form: type[Operator],
    row: UnaryRow | BinaryRow,
    names: Sequence[str],
    *,
    is_linear: bool = False,
    names_outputs: bool = False,
) -> None:
    if names:
        body = {
            "row": row,
            "is_linear": is_linear,
            "names_outputs": names_outputs,
            "__doc__": f"{row.doc} {form.__doc__}",
            "__module__": __name__,
        }
        register(*names)(type(names[0], (form,), body))


for _unary in UNARY:
    _define(Unary, _unary, _unary.names, is_linear=isinstance(_unary.slope, float))
for _binary in BINARY:
    _is_linear = isinstance(_binary.lhs, float) and isinstance(_binary.rhs, float)
    _define(
        Elementwise,
        _binary,
        _binary.elementwise,
        is_linear=_is_linear,
        names_outputs=_binary.names_outputs,
    )
    _define(Broadcast, _binary, _binary.broadcast)
    _define(BroadcastMixed, _binary, _binary.mixed)
    _define(Scalar, _binary, _binary.scalar)
    _define(Reversed, _binary, _binary.reversed)
