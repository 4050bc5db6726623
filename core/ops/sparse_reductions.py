"""Sums over the stored values of sparse arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..types import Array
from .csr import Csr
from .operator import Run
from .rows import Rows
from .sparse_kernel import SparseKernel

__all__ = ["matrix_sum_kernel", "square_sum_kernel"]


def square_sum_kernel(axis: int, *, keepdims: bool) -> SparseKernel:
    """Return a kernel that sums the squares of a row_sparse matrix over one axis."""
    gives_rows = axis == 1 and keepdims
    return SparseKernel(
        stored=(0,),
        output="row_sparse" if gives_rows else "default",
        forward=_squares_of_rows if gives_rows else partial(_squares, axis),
        backward=partial(_square_sum_backward, axis),
        gradients={
            "default": ("row_sparse",),
            **({"row_sparse": ("row_sparse",)} if gives_rows else {}),
        },
    )


def matrix_sum_kernel(axis: int, *, is_mean: bool) -> SparseKernel:
    """Return a kernel for the sum or mean of a csr matrix over one axis."""
    return SparseKernel(
        stored=(0,), output="default", forward=partial(_sum_of_matrix, axis, is_mean)
    )


def _sum_of_matrix(
    axis: int, is_mean: bool, run: Run, inputs: Sequence[Csr], outputs: Sequence[Array]
) -> None:
    matrix, out = inputs[0], outputs[0].reshape(-1)
    if axis == 1:
        matrix.add_up_rows(run.xp.ones((matrix.data.shape[0], 1), matrix.dtype), out[:, None])
    else:
        columns, sums = matrix.transposed_times(run.xp.ones((matrix.shape[0], 1), matrix.dtype))
        out[...] = 0
        out[columns] = sums[:, 0]
    if is_mean:
        run.xp.divide(out, matrix.shape[axis], out=out, casting="unsafe")


def _squares_of_rows(run: Run, inputs: Sequence[Rows], outputs: Sequence[Rows]) -> None:
    rows, out = inputs[0], outputs[0]
    if rows.indices is None:
        out.clear()
    else:
        out.keep(rows.indices, run.xp.einsum("ij,ij->i", rows.values, rows.values)[:, None])


def _squares(axis: int, run: Run, inputs: Sequence[Rows], outputs: Sequence[Array]) -> None:
    rows, out = inputs[0], outputs[0].reshape(-1)
    out[...] = 0
    if rows.indices is None:
        return
    if axis == 1:
        out[rows.indices] = run.xp.einsum("ij,ij->i", rows.values, rows.values)
    else:
        out += run.xp.einsum("ij,ij->j", rows.values, rows.values)


def _square_sum_backward(
    axis: int,
    run: Run,
    out_grads: Sequence[Any],
    inputs: Sequence[Rows],
    outputs: Sequence[Any],
    in_grads: Sequence[Any],
) -> None:
    rows, grad, target, xp = inputs[0], out_grads[0], in_grads[0], run.xp
    if isinstance(grad, Rows):
        if grad.indices is not None:
            read = rows.read(xp, grad.indices)
            target.add_ordered(xp, grad.indices, 2 * read * grad.values)
        return
    if rows.indices is None:
        return
    factors = grad.reshape(-1, 1)[rows.indices] if axis == 1 else grad.reshape(1, -1)
    target.add_ordered(xp, rows.indices, 2 * rows.values * factors)
