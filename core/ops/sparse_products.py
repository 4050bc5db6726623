"""Products of a csr matrix with a dense or row_sparse one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types import Array
from .csr import Csr
from .operator import Run
from .rows import Rows
from .sparse_kernel import SparseKernel
from .summation import add_up

__all__ = ["LAYER", "dot_kernel"]


def dot_kernel(
    left: str, right: str, *, transpose_a: bool, transpose_b: bool
) -> SparseKernel | None:
    """Return the kernel of ``dot`` for these storage types, or None if there is none."""
    if left != "csr" or right == "csr" or transpose_b:
        return None
    return (_TRANSPOSED if transpose_a else _PRODUCT)[right]


def _product(run: Run, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
    matrix, dense = inputs
    out = outputs[0]
    if isinstance(dense, Rows):
        matrix.add_up_rows(_read_columns(run, matrix, dense), out)
        return
    matrix.times(dense.reshape(dense.shape[0], -1), out.reshape(out.shape[0], -1))


def _read_columns(run: Run, matrix: Csr, dense: Rows) -> Array:
    """Return, for each stored value of a matrix, the row of ``dense`` that it multiplies."""
    if dense.indices is None or dense.indices.shape[0] == dense.shape[0]:
        return dense.read(run.xp, matrix.pattern.columns)
    # Each row is searched for once, however many values multiply it.
    return dense.read(run.xp, matrix.pattern.by_column[0])[matrix.pattern.places]


def _product_backward(
    run: Run,
    out_grads: Sequence[Array],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    in_grads: Sequence[Any],
) -> None:
    matrix, target = inputs[0], in_grads[1]
    grad = out_grads[0].reshape(matrix.shape[0], -1)
    columns, sums = matrix.transposed_times(grad)
    target.add_ordered(run.xp, columns, sums.reshape(-1, *target.shape[1:]))


def _transposed(run: Run, inputs: Sequence[Any], outputs: Sequence[Rows]) -> None:
    matrix, dense = inputs
    if isinstance(dense, Rows):
        dense = dense.dense(run.xp)
    out = outputs[0]
    columns, sums = matrix.transposed_times(dense.reshape(matrix.shape[0], -1))
    out.keep(columns, sums.reshape(-1, *out.shape[1:]))


def _transposed_backward(
    run: Run,
    out_grads: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    in_grads: Sequence[Any],
) -> None:
    _product(run, (inputs[0], out_grads[0]), (in_grads[1],))


_PRODUCT = {
    right: SparseKernel(
        stored=(0, 1) if right == "row_sparse" else (0,),
        output="default",
        forward=_product,
        backward=_product_backward,
        gradients={"default": (None, "row_sparse")},
    )
    for right in ("default", "row_sparse")
}
_TRANSPOSED = {
    right: SparseKernel(
        stored=(0, 1) if right == "row_sparse" else (0,),
        output="row_sparse",
        forward=_transposed,
        backward=_transposed_backward,
        gradients={"default": (None, "default"), "row_sparse": (None, "default")},
    )
    for right in ("default", "row_sparse")
}


def _layer(run: Run, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
    data, weight, *bias = inputs
    data.times(weight.T, outputs[0])
    if bias:
        run.xp.add(outputs[0], bias[0].reshape(-1), out=outputs[0])


def _layer_backward(
    run: Run,
    out_grads: Sequence[Array],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    in_grads: Sequence[Any],
) -> None:
    data, grad = inputs[0], out_grads[0]
    _, weight_grad, *bias_grad = in_grads
    if weight_grad is not None:
        columns, sums = data.transposed_times(grad)
        weight_grad[...] = 0
        weight_grad[:, columns] = sums.T
    if bias_grad and bias_grad[0] is not None:
        add_up(run, grad, 0, bias_grad[0].reshape(-1))


LAYER = SparseKernel(
    stored=(0,),
    output="default",
    forward=_layer,
    backward=_layer_backward,
    gradients={"default": (None, "default", "default")},
)
"""A fully connected layer of csr data."""
