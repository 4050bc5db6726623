"""Sums over what is stored of sparse arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..types import Array
from .operator import Run
from .rows import Rows
from .sparse_kernel import SparseKernel

__all__ = ["square_sum_kernel"]


def square_sum_kernel(axis: int, *, keepdims: bool) -> SparseKernel:
    """Return what sums the squares of a matrix of which rows are kept, over one axis."""
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
