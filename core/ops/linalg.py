"""Linear algebra on stacks of matrices: the last two axes are rows and columns."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import MXNetError, ShapeError
from ..types import Array, Shape, normalize_axis
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import declares_attributes, register

__all__ = [
    "Determinant",
    "Gemm",
    "Gemm2",
    "Inverse",
    "SignedLogDeterminant",
    "Square",
    "SumLogDiagonal",
    "Syrk",
    "Trmm",
    "Trsm",
    "computed",
    "inverse_of",
    "transposed",
]


def transposed(matrix: Array, transpose: bool = True) -> Array:
    """Return a stack of matrices, transposed if ``transpose`` is set."""
    return matrix.swapaxes(-1, -2) if transpose else matrix


def computed(run: Run, function: str, matrix: Array, name: str) -> Any:
    """Call a function of ``xp.linalg``; an error about the matrix names the operator."""
    try:
        return getattr(run.xp.linalg, function)(matrix)
    except (np.linalg.LinAlgError, TypeError) as error:
        raise MXNetError(f"{name}: {error}") from None


def inverse_of(run: Run, matrix: Array, name: str) -> Array:
    """Return the inverses of a stack of matrices; the error for a singular one names the
    operator."""
    out = run.xp.empty_like(matrix)
    if run.linear is not None and run.linear.invert(matrix, out):
        return out
    found: Array = computed(run, "inv", matrix, name)
    return found


def signs_and_logarithms(run: Run, matrix: Array, name: str) -> tuple[Array, Array]:
    """Return the signs of the determinants of a stack of matrices, and the logarithms of their
    magnitudes; an error names the operator."""
    found = None if run.linear is None else run.linear.determine(matrix)
    return found or computed(run, "slogdet", matrix, name)


# -- products -------------------------------------------------------------------------------------


class _Products(Operator):
    """Base of products of two matrices."""

    transpose_a: bool
    transpose_b: bool
    alpha: float
    axis: int

    def input_names(self) -> tuple[str, ...]:
        return ("A", "B")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    def _matrices(self, array: Array, xp: Any) -> Array:
        """Return an array with its rows moved to the second last axis."""
        return xp.moveaxis(array, self.axis, -2)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a, b = inputs[:2]
        if a is None or b is None:
            return inputs, outputs
        if len(a) != len(b) or len(a) < 2:
            raise ShapeError(f"A {a} and B {b} need the same number of dimensions, at least 2")
        rows = normalize_axis(self.axis, len(a))
        if rows == len(a) - 1:
            raise ShapeError(f"axis is {self.axis}; the columns lie along the last axis")
        batch = self.expect("B", self._batch(b, rows), self._batch(a, rows))
        m, k = (a[-1], a[rows]) if self.transpose_a else (a[rows], a[-1])
        inner, n = (b[-1], b[rows]) if self.transpose_b else (b[rows], b[-1])
        if k and inner and k != inner:
            raise ShapeError(f"A {a} and B {b} are summed over {k} and {inner} elements")
        expected = (*batch[:rows], m, *batch[rows:], n)
        output = self.expect("output", outputs[0], expected)
        others = [self.expect("C", shape, output) for shape in inputs[2:]]
        return [a, b, *others], [output]

    def _batch(self, shape: Shape, rows: int) -> Shape:
        return shape[:rows] + shape[rows + 1 : -1]

    def product(self, run: Run, inputs: Sequence[Array]) -> Array:
        """Return the product times ``alpha``, with rows along the second last axis."""
        a, b = (self._matrices(array, run.xp) for array in inputs[:2])
        return self.alpha * (transposed(a, self.transpose_a) @ transposed(b, self.transpose_b))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad, a, b = (
            self._matrices(array, run.xp) for array in (out_grads[0], inputs[0], inputs[1])
        )
        left, right = transposed(a, self.transpose_a), transposed(b, self.transpose_b)
        if in_grads[0] is not None:
            found = self.alpha * (grad @ transposed(right))
            self._matrices(in_grads[0], run.xp)[...] = transposed(found, self.transpose_a)
        if in_grads[1] is not None:
            found = self.alpha * (transposed(left) @ grad)
            self._matrices(in_grads[1], run.xp)[...] = transposed(found, self.transpose_b)


@register("_linalg_gemm2", "linalg_gemm2")
class Gemm2(_Products):
    """``alpha · A B``: (..., m, k) times (..., k, n) gives (..., m, n).

    A and B may be transposed. Like all operators here, it computes in the inputs' dtype.
    """

    transpose_a: bool = attribute(False, doc="whether A is transposed")
    transpose_b: bool = attribute(False, doc="whether B is transposed")
    alpha: float = attribute(1.0, doc="factor of the product")
    axis: int = attribute(-2, doc="the axis of rows; columns are along the last axis")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._matrices(outputs[0], run.xp)[...] = self.product(run, inputs)


@register("_linalg_gemm", "linalg_gemm")
class Gemm(_Products):
    """``alpha · A B + beta · C``: (..., m, k) times (..., k, n) plus (..., m, n).

    A and B may be transposed.
    """

    transpose_a: bool = attribute(False, doc="whether A is transposed")
    transpose_b: bool = attribute(False, doc="whether B is transposed")
    alpha: float = attribute(1.0, doc="factor of the product")
    beta: float = attribute(1.0, doc="factor of C")
    axis: int = attribute(-2, doc="the axis of rows; columns are along the last axis")

    def input_names(self) -> tuple[str, ...]:
        return ("A", "B", "C")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        out = self._matrices(outputs[0], run.xp)
        out[...] = self.product(run, inputs)
        out += self.beta * self._matrices(inputs[2], run.xp)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        super().backward(run, out_grads, inputs, outputs, in_grads)
        if in_grads[2] is not None:
            run.xp.multiply(out_grads[0], self.beta, out=in_grads[2])


class _OfOne(Operator):
    """Base of operators of one matrix A."""

    def input_names(self) -> tuple[str, ...]:
        return ("A",)

    def matrix(self, shape: Shape, square: bool = True) -> Shape:
        """Check that a shape is that of matrices, square ones if ``square`` is set."""
        if len(shape) < 2 or (square and 0 not in shape[-2:] and shape[-1] != shape[-2]):
            raise ShapeError(f"A has shape {shape}; expected {'square ' * square}matrices")
        return shape


@register("_linalg_syrk", "linalg_syrk")
class Syrk(_OfOne):
    """``alpha · A Aᵀ``, or ``alpha · Aᵀ A`` with ``transpose``.

    A is (..., m, n); the output is (..., m, m) or (..., n, n).
    """

    transpose: bool = attribute(False, doc="whether A is transposed")
    alpha: float = attribute(1.0, doc="factor of the product")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if inputs[0] is None:
            return inputs, outputs
        a = self.matrix(inputs[0], square=False)
        size = a[-1] if self.transpose else a[-2]
        return [a], [self.expect("output", outputs[0], (*a[:-2], size, size))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        a = transposed(inputs[0], self.transpose)
        outputs[0][...] = self.alpha * (a @ transposed(a))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        grad = self.alpha * (out_grads[0] + transposed(out_grads[0]))
        in_grads[0][...] = inputs[0] @ grad if self.transpose else grad @ inputs[0]


# -- triangular matrices --------------------------------------------------------------------------


@declares_attributes
class _Triangular(Operator, abc.ABC):
    transpose: bool = attribute(False, doc="use the transpose of A")
    rightside: bool = attribute(False, doc="multiply with A from the right")
    lower: bool = attribute(
        True, doc="A is lower triangular, otherwise upper; the other triangle is not read"
    )
    alpha: float = attribute(1.0, doc="factor of the product")

    def input_names(self) -> tuple[str, ...]:
        return ("A", "B")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        b = self.expect("B", inputs[1], outputs[0])
        if b is None:
            return inputs, outputs
        if len(b) < 2:
            raise ShapeError(f"B has shape {b}; expected matrices")
        size = b[-1] if self.rightside else b[-2]
        return [self.expect("A", inputs[0], (*b[:-2], size, size)), b], [b]

    def operand(self, run: Run, a: Array) -> Array:
        """Return the triangle of A, transposed if asked for."""
        triangle = run.xp.tril(a) if self.lower else run.xp.triu(a)
        return transposed(triangle, self.transpose)

    def write_product(self, run: Run, factor: Array, b: Array, out: Array) -> None:
        """Write B times ``alpha`` and times a matrix, on the side on which A stands."""
        run.xp.matmul(*((b, factor) if self.rightside else (factor, b)), out=out)
        if self.alpha != 1:
            out *= self.alpha

    def into_triangle(self, run: Run, grad: Array, target: Array | None) -> None:
        """Write the gradient of A, given that of its (transposed) triangle."""
        if target is not None:
            grad = transposed(grad, self.transpose)
            target[...] = run.xp.tril(grad) if self.lower else run.xp.triu(grad)


@register("_linalg_trmm", "linalg_trmm")
class Trmm(_Triangular):
    """``alpha · A B`` with A triangular, or ``alpha · B A`` with ``rightside``.

    B is (..., m, n), like the output; A is (..., m, m), or (..., n, n) with ``rightside``.
    """

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.write_product(run, self.operand(run, inputs[0]), inputs[1], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad, (a, b) = out_grads[0], inputs
        of_a = transposed(b) @ grad if self.rightside else grad @ transposed(b)
        self.into_triangle(run, self.alpha * of_a, in_grads[0])
        if in_grads[1] is not None:
            self.write_product(run, transposed(self.operand(run, a)), grad, in_grads[1])


@register("_linalg_trsm", "linalg_trsm")
class Trsm(_Triangular):
    """The solution X of ``A X = alpha · B`` with A triangular, or of ``X A = alpha · B``.

    B is (..., m, n), like X; A is (..., m, m), or (..., n, n) with ``rightside``.
    """

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(0,))

    def solution(self, run: Run, a: Array, sides: Array, out: Array, *, transpose: bool) -> None:
        """Write the solution for ``sides``, of the transposed system if ``transpose`` is set."""
        where = {"lower": self.lower, "rightside": self.rightside}
        turn = self.transpose != transpose
        linear = run.linear
        if not linear or not linear.solve_triangular(a, sides, out, transpose=turn, **where):
            inverse = transposed(inverse_of(run, self.operand(run, a), self.names[0]), transpose)
            out[...] = sides @ inverse if self.rightside else inverse @ sides

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.solution(run, inputs[0], inputs[1], outputs[0], transpose=False)
        if self.alpha != 1:
            outputs[0][...] *= self.alpha

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        # With A X = alpha B: dB = alpha A⁻ᵀ dX and dA = -A⁻ᵀ dX Xᵀ.
        grad, out = out_grads[0], outputs[0]
        pull = run.scratch(grad.shape, grad.dtype)
        self.solution(run, inputs[0], grad, pull, transpose=True)
        of_a = transposed(out) @ pull if self.rightside else pull @ transposed(out)
        self.into_triangle(run, -of_a, in_grads[0])
        if in_grads[1] is not None:
            run.xp.multiply(pull, self.alpha, out=in_grads[1])


# -- one square matrix ----------------------------------------------------------------------------


class Square(_OfOne):
    """Base of operators from a square matrix to one of the same shape."""

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = self.expect("A", inputs[0], outputs[0])
        return ([a], [a]) if a is None else ([self.matrix(a)], [a])

    def backward_reads(self) -> Reads:
        return Reads(outputs=(0,))


@register("_linalg_inverse", "linalg_inverse")
class Inverse(Square):
    """The inverses of square matrices (..., n, n)."""

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = inverse_of(run, inputs[0], self.names[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        # From dA⁻¹ = -A⁻¹ dA A⁻¹.
        back = transposed(outputs[0])
        in_grads[0][...] = -(back @ out_grads[0] @ back)


# -- scalars of a matrix --------------------------------------------------------------------------


class _Numbers(_OfOne):
    """Base of operators that compute scalars of each matrix."""

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(0,))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if inputs[0] is None:
            return inputs, outputs
        a = self.matrix(inputs[0])
        numbers = a[:-2] or (1,)
        return [a], [self.expect("output", output, numbers) for output in outputs]


@register("_linalg_sumlogdiag", "linalg_sumlogdiag")
class SumLogDiagonal(_Numbers):
    """The sum of the logarithms of the diagonal entries: (..., n, n) gives (...), or (1,)."""

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        diagonal = run.xp.diagonal(inputs[0], axis1=-2, axis2=-1)
        outputs[0][...] = run.xp.log(diagonal).sum(axis=-1)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        target = in_grads[0]
        assert target is not None
        target.fill(0)
        index = run.xp.arange(target.shape[-1])
        grad = out_grads[0].reshape(*target.shape[:-2], 1)
        target[..., index, index] = grad / inputs[0][..., index, index]


@register("_linalg_det", "linalg_det")
class Determinant(_Numbers):
    """The determinants of square matrices: (..., n, n) gives (...), or (1,)."""

    def output_names(self) -> tuple[str, ...]:
        return ("output0",)

    def stored_outputs(self) -> int:
        """MXNet has hidden outputs: the LU factors it is computed from."""
        return 3

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        # By way of the logarithm, as in MXNet: products of pivots could overflow on the way.
        signs, logarithms = signs_and_logarithms(run, inputs[0], self.names[0])
        outputs[0][...] = signs * run.xp.exp(logarithms)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        target = in_grads[0]
        assert target is not None
        # Jacobi's formula: the derivative is det(A) A⁻ᵀ.
        factor = (out_grads[0] * outputs[0]).reshape(*target.shape[:-2], 1, 1)
        target[...] = factor * transposed(inverse_of(run, inputs[0], self.names[0]))


@register("_linalg_slogdet", "linalg_slogdet")
class SignedLogDeterminant(_Numbers):
    """The sign of the determinant, and the logarithm of its magnitude.

    For square matrices (..., n, n), both outputs are (...), or (1,).
    """

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def stored_outputs(self) -> int:
        """MXNet has hidden outputs: the LU factors they are computed from."""
        return 4

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        found = signs_and_logarithms(run, inputs[0], self.names[0])
        outputs[0][...], outputs[1][...] = found

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        target = in_grads[0]
        assert target is not None
        # The derivative of log |det(A)| is A⁻ᵀ; the sign has none.
        factor = out_grads[1].reshape(*target.shape[:-2], 1, 1)
        target[...] = factor * transposed(inverse_of(run, inputs[0], self.names[0]))
