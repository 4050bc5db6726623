"""Matrix products of two arrays: ``dot`` and ``batch_dot``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .derivatives import Functions, Tensor
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import declares_attributes, register
from .sparse_kernel import SparseKernel
from .sparse_products import dot_kernel

__all__ = ["BatchDot", "Dot"]


@declares_attributes
@implements(kinds.MATMUL)
class _Product(Operator):
    is_batched: ClassVar[bool] = False
    """Whether the leading axes are a batch of matrices; read by kernels."""

    transpose_a: bool = attribute(default=False, doc="use the transpose of the left input")
    transpose_b: bool = attribute(default=False, doc="use the transpose of the right input")
    forward_stype: str | None = attribute(
        default=None, choices=("default", "csr", "row_sparse"), doc="storage type of the output"
    )

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    def product_derivative(
        self, dot: Callable[..., Tensor], rank: int, inputs: Sequence[Tensor], grad: Tensor
    ) -> Sequence[Tensor] | None:
        """Return the gradients of both inputs as products; None if an input has another rank."""
        a, b = inputs
        if a.ndim != rank or b.ndim != rank:
            return None
        left, right = self.transpose_a, self.transpose_b
        # For y = a b: da = dy bᵀ and db = aᵀ dy. The gradient of an input that was transposed is
        # transposed again by exchanging the factors.
        if left:
            da = dot(b, grad, transpose_a=right, transpose_b=True)
        else:
            da = dot(grad, b, transpose_b=not right)
        if right:
            db = dot(grad, a, transpose_a=True, transpose_b=left)
        else:
            db = dot(a, grad, transpose_a=not left)
        return [da, db]


@register("dot", "_sparse_dot")
class Dot(_Product):
    """Sum over the last axis of the left input and the first of the right.

    If transposed, the left input's first axis or the right input's last axis is summed instead. Two
    vectors give their inner product, of shape (1,).
    """

    def output_storage(self, inputs: Sequence[str]) -> str:
        left, right = inputs
        if left == "csr" and self.transpose_a:
            return "row_sparse"
        return "csr" if (left, right) == ("default", "csr") else "default"

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return dot_kernel(*inputs, transpose_a=self.transpose_a, transpose_b=self.transpose_b)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        lhs, rhs = inputs
        if lhs is None or rhs is None:
            return inputs, outputs
        if not lhs or not rhs:
            raise ShapeError(f"lhs {lhs} and rhs {rhs} must have at least one dimension each")
        if len(lhs) == len(rhs) == 1 and (self.transpose_a or self.transpose_b):
            raise ShapeError("two vectors have no transpose; leave transpose_a and transpose_b out")
        left, inner_left = (lhs[1:], lhs[0]) if self.transpose_a else (lhs[:-1], lhs[-1])
        right, inner_right = (rhs[:-1], rhs[-1]) if self.transpose_b else (rhs[1:], rhs[0])
        if inner_left and inner_right and inner_left != inner_right:
            raise ShapeError(
                f"lhs {lhs} and rhs {rhs} are summed over axes of {inner_left} and {inner_right} "
                f"elements (transpose_a={self.transpose_a}, transpose_b={self.transpose_b}); "
                f"they must be equal"
            )
        inner = inner_left or inner_right
        lhs = (inner, *left) if self.transpose_a else (*left, inner)
        rhs = (*right, inner) if self.transpose_b else (inner, *right)
        return [lhs, rhs], [self.expect("output", outputs[0], left + right or (1,))]

    def _left(self, array: Array) -> Array:
        """Return the left input as a matrix (rows, inner)."""
        if self.transpose_a:
            return array.reshape(array.shape[0], -1).T
        return array.reshape(-1, array.shape[-1])

    def _right(self, array: Array) -> Array:
        """Return the right input as a matrix (inner, columns)."""
        if self.transpose_b:
            return array.reshape(-1, array.shape[-1]).T
        return array.reshape(array.shape[0], -1)

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        return self.product_derivative(f.dot, 2, inputs, out_grads[0])

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        left, right = self._left(inputs[0]), self._right(inputs[1])
        multiply(run, left, right, outputs[0].reshape(left.shape[0], right.shape[1]))

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        left, right = self._left(inputs[0]), self._right(inputs[1])
        dy = out_grads[0].reshape(left.shape[0], right.shape[1])
        if in_grads[0] is not None:
            multiply(run, dy, right.T, self._left(in_grads[0]))
        if in_grads[1] is not None:
            multiply(run, left.T, dy, self._right(in_grads[1]))


@register("batch_dot", "_npx_batch_dot")
class BatchDot(_Product):
    """Products of the matrices in the last two axes of two stacks: (..., m, k) x (..., k, n)."""

    is_batched: ClassVar[bool] = True

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        lhs, rhs = inputs
        if lhs is None or rhs is None:
            return inputs, outputs
        if len(lhs) != len(rhs) or len(lhs) < 3:
            raise ShapeError(
                f"lhs {lhs} and rhs {rhs} must have the same number of dimensions, at least 3"
            )
        batch = self.expect("rhs", rhs[:-2], self.expect("lhs", lhs[:-2], None))
        batch = self.expect("lhs", lhs[:-2], batch)
        m, k = _swapped(lhs[-2:], self.transpose_a)
        inner, n = _swapped(rhs[-2:], self.transpose_b)
        if k and inner and k != inner:
            raise ShapeError(
                f"lhs {lhs} and rhs {rhs} are summed over axes of {k} and {inner} elements "
                f"(transpose_a={self.transpose_a}, transpose_b={self.transpose_b}); "
                f"they must be equal"
            )
        if not (k and inner):  # like MXNet, infer nothing before both are known
            return inputs, outputs
        shapes: list[Shape | None] = [
            batch + _swapped((m, k), self.transpose_a),
            batch + _swapped((k, n), self.transpose_b),
        ]
        return shapes, [self.expect("output", outputs[0], (*batch, m, n))]

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        return self.product_derivative(f.batch_dot, 3, inputs, out_grads[0])

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        left = _transposed(inputs[0], self.transpose_a)
        right = _transposed(inputs[1], self.transpose_b)
        run.xp.matmul(left, right, out=outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        left = _transposed(inputs[0], self.transpose_a)
        right = _transposed(inputs[1], self.transpose_b)
        dy = out_grads[0]
        if in_grads[0] is not None:
            self._into(run, dy, right.swapaxes(-1, -2), in_grads[0], self.transpose_a)
        if in_grads[1] is not None:
            self._into(run, left.swapaxes(-1, -2), dy, in_grads[1], self.transpose_b)

    def _into(self, run: Run, a: Array, b: Array, out: Array, transposed: bool) -> None:
        """Write ``a b``, or its transpose as ``b' a'``, which keeps ``out`` contiguous."""
        if transposed:
            a, b = b.swapaxes(-1, -2), a.swapaxes(-1, -2)
        run.xp.matmul(a, b, out=out)


def multiply(run: Run, a: Array, b: Array, out: Array) -> None:
    """Write the product of two matrices; for a transposed ``out``, via the transposed product."""
    if out.flags.c_contiguous:
        run.xp.matmul(a, b, out=out)
    else:
        run.xp.matmul(b.T, a.T, out=out.T)


def _transposed(array: Array, transpose: bool) -> Array:
    return array.swapaxes(-1, -2) if transpose else array


def _swapped(pair: Shape, transpose: bool) -> Shape:
    return pair[::-1] if transpose else pair
