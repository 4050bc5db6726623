"""Elementwise functions of sparse arrays that map 0 to 0: only stored values are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..types import Array
from .csr import Csr, Pattern
from .operator import Operator, Run
from .rows import Rows, sum_rows
from .sparse_kernel import SparseKernel

__all__ = [
    "of_stored_values",
    "product_kernel",
    "quotient_kernel",
    "scaling_kernel",
    "sum_kernel",
    "sum_of_rows_kernel",
]

_INT64 = np.dtype("int64")


def of_stored_values(op: Operator, stype: str) -> SparseKernel:
    """Return a kernel that applies a unary operator with f(0) = 0 to the stored values."""
    if stype == "csr":
        return SparseKernel(stored=(0,), output="csr", forward=partial(_on_values, op))
    return SparseKernel(
        stored=(0,),
        output="row_sparse",
        forward=partial(_on_rows, op),
        backward=partial(_on_rows_backward, op),
        gradients={"default": ("default",), "row_sparse": ("row_sparse",)},
    )


def _on_values(op: Operator, run: Run, inputs: Sequence[Csr], outputs: Sequence[Csr]) -> None:
    matrix, out = inputs[0], outputs[0]
    values = run.xp.empty(matrix.data.shape, out.dtype)
    op.forward(run, (matrix.data,), (values,))
    out.keep(matrix.pattern, values)


def _on_rows(op: Operator, run: Run, inputs: Sequence[Rows], outputs: Sequence[Rows]) -> None:
    rows, out = inputs[0], outputs[0]
    if rows.indices is None:
        out.clear()
        return
    values = run.xp.empty(rows.values.shape, out.dtype)
    op.forward(run, (rows.values,), (values,))
    out.keep(rows.indices, values)


def _on_rows_backward(
    op: Operator,
    run: Run,
    out_grads: Sequence[Any],
    inputs: Sequence[Rows | None],
    outputs: Sequence[Rows | None],
    in_grads: Sequence[Any],
) -> None:
    grad, target, xp = out_grads[0], in_grads[0], run.xp
    if not isinstance(grad, Rows):
        read = [_each(both, lambda rows: rows.dense(xp)) for both in (inputs, outputs)]
        op.backward(run, out_grads, read[0], read[1], in_grads)
        return
    if grad.indices is None:
        return
    read = [_each(both, lambda rows: rows.read(xp, grad.indices)) for both in (inputs, outputs)]
    values = xp.empty(grad.values.shape, target.dtype)
    op.backward(run, (grad.values,), read[0], read[1], (values,))
    target.add_ordered(xp, grad.indices, values)


def _each(given: Sequence[Rows | None], read: Callable[[Rows], Array]) -> list[Array | None]:
    return [None if rows is None else read(rows) for rows in given]


def sum_kernel(inputs: Sequence[str], sign: float) -> SparseKernel | None:
    """Return a kernel that adds or subtracts two arrays of one storage type."""
    if tuple(inputs) == ("csr", "csr"):
        return SparseKernel(stored=(0, 1), output="csr", forward=partial(_add_matrices, sign))
    if tuple(inputs) == ("row_sparse", "row_sparse"):
        return SparseKernel(
            stored=(0, 1),
            output="row_sparse",
            forward=partial(_add_rows, sign),
            backward=partial(_add_rows_backward, sign),
            gradients={
                "default": ("default", "default"),
                "row_sparse": ("row_sparse", "row_sparse"),
            },
        )
    return None


def sum_of_rows_kernel(inputs: Sequence[str]) -> SparseKernel | None:
    """Return a kernel that adds any number of row_sparse arrays."""
    if set(inputs) != {"row_sparse"}:
        return None
    count = len(inputs)
    return SparseKernel(
        stored=tuple(range(count)),
        output="row_sparse",
        forward=_add_all_rows,
        backward=_add_all_rows_backward,
        gradients={
            "default": ("default",) * count,
            "row_sparse": ("row_sparse",) * count,
        },
    )


def _add_all_rows(run: Run, inputs: Sequence[Rows], outputs: Sequence[Rows]) -> None:
    out, stored = outputs[0], [rows for rows in inputs if rows.indices is not None]
    out.clear()
    if len(stored) == 1:
        out.share(stored[0])
    elif stored:
        indices = run.xp.concatenate([rows.indices for rows in stored])
        out.add(run.xp, indices, run.xp.concatenate([rows.values for rows in stored]))


def _add_all_rows_backward(
    run: Run,
    out_grads: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    in_grads: Sequence[Any],
) -> None:
    grad = out_grads[0]
    for target in in_grads:
        if target is None:
            continue
        if not isinstance(grad, Rows):
            run.xp.copyto(target, grad)
        elif grad.indices is not None:
            target.add_ordered(run.xp, grad.indices, grad.values)


def _add_rows(sign: float, run: Run, inputs: Sequence[Rows], outputs: Sequence[Rows]) -> None:
    out = outputs[0]
    # Shared with the input: ``add`` replaces both arrays and writes into neither.
    out.keep(inputs[0].indices, inputs[0].values)
    if inputs[1].indices is not None:
        out.add(run.xp, inputs[1].indices, sign * inputs[1].values)


def _add_rows_backward(
    sign: float,
    run: Run,
    out_grads: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    in_grads: Sequence[Any],
) -> None:
    grad = out_grads[0]
    for target, factor in zip(in_grads, (1.0, sign), strict=True):
        if target is None:
            continue
        if not isinstance(grad, Rows):
            run.xp.multiply(grad, factor, out=target)
        elif grad.indices is not None:
            target.add_ordered(run.xp, grad.indices, grad.values * grad.dtype.type(factor))


def _add_matrices(sign: float, run: Run, inputs: Sequence[Csr], outputs: Sequence[Csr]) -> None:
    xp, out, width = run.xp, outputs[0], outputs[0].shape[1]
    places = [matrix.pattern.rows * width + matrix.pattern.columns for matrix in inputs]
    values = xp.concatenate([inputs[0].data, sign * inputs[1].data])
    # Flat positions in ascending order are the order of CSR: by row, then by column.
    kept, sums = sum_rows(xp, xp.concatenate(places), values[:, None], out.dtype)
    counts = xp.bincount(kept // width, minlength=out.shape[0])
    indptr = xp.concatenate([xp.zeros(1, _INT64), xp.cumsum(counts)]).astype(_INT64)
    out.keep(Pattern(xp, indptr, kept % width), sums[:, 0])


def product_kernel(inputs: Sequence[str]) -> SparseKernel | None:
    """Return a kernel that multiplies two arrays, at least one of which is sparse."""
    forward = _PRODUCTS.get(tuple(inputs))
    if forward is None:
        return None
    stored = tuple(index for index, stype in enumerate(inputs) if stype != "default")
    return SparseKernel(stored=stored, output=inputs[stored[0]], forward=forward)


def quotient_kernel(inputs: Sequence[str]) -> SparseKernel | None:
    """Return a kernel that divides the rows of a row_sparse array."""
    if inputs[0] != "row_sparse":
        return None
    stored = (0, 1) if inputs[1] == "row_sparse" else (0,)
    return SparseKernel(stored=stored, output="row_sparse", forward=_divide_rows)


def scaling_kernel(function: Callable[..., None]) -> SparseKernel:
    """Return a kernel for a binary function of a csr matrix and a broadcast dense array."""
    return SparseKernel(stored=(0,), output="csr", forward=partial(_scale, function))


def _scale(
    function: Callable[..., None], run: Run, inputs: Sequence[Any], outputs: Sequence[Csr]
) -> None:
    (matrix, dense), out = inputs, outputs[0]
    pattern = matrix.pattern
    factors = run.xp.broadcast_to(dense, matrix.shape)[pattern.rows, pattern.columns]
    values = run.xp.empty(matrix.data.shape, out.dtype)
    function(run, matrix.data, factors, values)
    out.keep(pattern, values)


def _multiply_rows(run: Run, inputs: Sequence[Any], outputs: Sequence[Rows]) -> None:
    """Multiply rows with those of the other array; rows missing there are 0."""
    first, other = inputs if isinstance(inputs[0], Rows) else inputs[::-1]
    if first.indices is None:
        outputs[0].clear()
        return
    here = first.indices
    factors = other.read(run.xp, here) if isinstance(other, Rows) else other[here]
    outputs[0].keep(here, first.values * factors)


def _divide_rows(run: Run, inputs: Sequence[Any], outputs: Sequence[Rows]) -> None:
    rows, other = inputs
    if rows.indices is None:
        outputs[0].clear()
        return
    here = rows.indices
    divisors = other.read(run.xp, here) if isinstance(other, Rows) else other[here]
    outputs[0].keep(here, rows.values / divisors)


def _multiply_matrix(run: Run, inputs: Sequence[Any], outputs: Sequence[Csr]) -> None:
    """Multiply a csr matrix with a dense one."""
    first, other = inputs if isinstance(inputs[0], Csr) else inputs[::-1]
    pattern = first.pattern
    outputs[0].keep(pattern, first.data * other[pattern.rows, pattern.columns])


def _multiply_matrices(run: Run, inputs: Sequence[Csr], outputs: Sequence[Csr]) -> None:
    # Keeps the pattern of the first matrix: values that the other one lacks become stored zeros.
    first, other = inputs
    xp, width = run.xp, first.shape[1]
    here, there = (one.pattern.rows * width + one.pattern.columns for one in inputs)
    factors = xp.zeros(here.shape, other.dtype)
    if there.shape[0]:
        order = xp.argsort(there)
        places = xp.minimum(xp.searchsorted(there[order], here), there.shape[0] - 1)
        is_there = there[order][places] == here
        factors[is_there] = other.data[order][places[is_there]]
    outputs[0].keep(first.pattern, first.data * factors)


_PRODUCTS: dict[tuple[str, ...], Callable[..., None]] = {
    ("row_sparse", "row_sparse"): _multiply_rows,
    ("row_sparse", "default"): _multiply_rows,
    ("default", "row_sparse"): _multiply_rows,
    ("csr", "default"): _multiply_matrix,
    ("default", "csr"): _multiply_matrix,
    ("csr", "csr"): _multiply_matrices,
}
