"""Eigendecomposition of stacks of symmetric matrices."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ShapeError
from ..types import Array, Shape
from .linalg import computed, transposed
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["Syevd"]

_SMALLEST_GAP = {"float32": 1e-30, "float64": 1e-100}
"""MXNet's bounds for the difference of two eigenvalues in the gradient, by dtype."""


@register("_linalg_syevd", "linalg_syevd")
class Syevd(Operator):
    """U (..., n, n) and L (..., n) with ``A = Uᵀ diag(L) U``, for symmetric A (..., n, n).

    The rows of U are eigenvectors, in ascending order of the eigenvalues L; the largest element of
    each is positive. Only the lower triangle of A is read. Gradient: Seeger et al.,
    arXiv:1710.08717.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("A",)

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def backward_reads(self) -> Reads:
        return Reads(outputs=(0, 1))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = inputs[0]
        if a is None:
            return inputs, outputs
        if len(a) < 2 or a[-1] != a[-2]:
            raise ShapeError(f"A has shape {a}; expected square matrices")
        rows = self.expect("output0", outputs[0], a)
        return [a], [rows, self.expect("output1", outputs[1], a[:-1])]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp = run.xp
        values, vectors = computed(run, "eigh", inputs[0], self.names[0])
        rows = transposed(vectors)
        # An eigenvector and its negative are equally good; LAPACK may return either.
        largest = xp.abs(rows).argmax(axis=-1)[..., None]
        xp.multiply(rows, xp.sign(xp.take_along_axis(rows, largest, axis=-1)), out=outputs[0])
        xp.copyto(outputs[1], values)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        rows, values = outputs
        rows_grad, values_grad = out_grads
        index = run.xp.arange(values.shape[-1])
        # With ascending eigenvalues, the gaps of the lower triangle are not negative. Equal ones
        # are taken to be this far apart, so that a loss of the eigenvalues alone has a gradient.
        gaps = values[..., :, None] - values[..., None, :]
        gaps = run.xp.maximum(gaps, _SMALLEST_GAP[gaps.dtype.name])
        pull = rows_grad @ transposed(rows)
        inner = run.xp.tril((pull - transposed(pull)) / (2 * gaps), -1)
        inner = inner + transposed(inner)
        inner[..., index, index] = values_grad
        in_grads[0][...] = transposed(rows) @ inner @ rows
