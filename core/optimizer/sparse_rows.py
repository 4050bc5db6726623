"""Updates from ``row_sparse`` gradients: of their rows alone where the optimizer is lazy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..backends import backend_of
from ..ndarray import NDArray
from ..ndarray.sparse_array import BaseSparseNDArray, RowSparseNDArray
from ..types import Array

__all__ = ["is_any_sparse", "update_sparse"]

Update = Callable[[Sequence[Array]], None]


def is_any_sparse(arrays: Sequence[NDArray]) -> bool:
    """Return whether any of the arrays is stored sparsely."""
    return any(array.stype != "default" for array in arrays)


def update_sparse(
    weight: NDArray, grad: NDArray, states: Sequence[NDArray], lazy: bool, update: Update
) -> None:
    """Update a weight and its states of which any may be sparse.

    Args:
        weight: updated in place.
        grad: with ``lazy`` and ``row_sparse`` storage, rows that it lacks stay as they are: no
            weight decay, no momentum.
        states: updated in place.
        lazy: see ``grad``.
        update: from weight, gradient and states, all flat, to their new values in place.
    """
    arrays = [weight, *states]
    with backend_of(weight.context).scope():
        if lazy and isinstance(grad, RowSparseNDArray):
            _update_rows(arrays, grad, update)
        else:
            _update_whole(arrays, grad, update)


def _update_rows(arrays: Sequence[NDArray], grad: RowSparseNDArray, update: Update) -> None:
    """Update the rows that the gradient has, in time proportional to their number."""
    rows = grad.indices.dense()
    pieces = [
        array.read_rows(rows) if isinstance(array, RowSparseNDArray) else array.dense()[rows]
        for array in arrays
    ]
    flat = [piece.reshape(-1) for piece in pieces]
    update([flat[0], grad.data.dense().reshape(-1), *flat[1:]])
    for array, piece in zip(arrays, pieces, strict=True):
        if isinstance(array, RowSparseNDArray):
            array.write_rows(rows, piece)
        else:
            array.dense_for_write()[rows] = piece


def _update_whole(arrays: Sequence[NDArray], grad: NDArray, update: Update) -> None:
    xp = backend_of(grad.context).xp
    whole = [
        array.dense() if isinstance(array, BaseSparseNDArray) else array.dense_for_write()
        for array in arrays
    ]
    # Contiguous, so that ``reshape`` gives views and the update arrives in the pieces.
    pieces = [xp.ascontiguousarray(raw) for raw in whole]
    flat = [piece.reshape(-1) for piece in pieces]
    update([flat[0], grad.dense().reshape(-1), *flat[1:]])
    for array, raw, piece in zip(arrays, whole, pieces, strict=True):
        if isinstance(array, BaseSparseNDArray):
            array.assign_dense(piece)
        elif piece is not raw:
            raw[...] = piece
