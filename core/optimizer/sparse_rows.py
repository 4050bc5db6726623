"""Updates from ``row_sparse`` gradients: of their rows alone where the optimizer is lazy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.backends import backend_of
from core.ndarray import NDArray
from core.ndarray.sparse_array import BaseSparseNDArray, RowSparseNDArray
from core.types import Array

__all__ = ["is_any_sparse", "update_sparse"]

Update = Callable[[Sequence[Array]], None]


def is_any_sparse(arrays: Sequence[NDArray]) -> bool:
    """Tell whether any of the arrays is stored sparsely."""
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
    backend = backend_of(weight.context)
    with backend.scope():
        whole = [
            # Dense arrays are written to: data, not dense(), says so to their versions.
            array.dense() if isinstance(array, BaseSparseNDArray) else array.data
            for array in arrays
        ]
        if lazy and isinstance(grad, RowSparseNDArray):
            rows = grad.indices.data
            pieces = [backend.xp.ascontiguousarray(raw[rows]) for raw in whole]
            gradient = grad.data.data
        else:
            rows = slice(None)
            pieces = [backend.xp.ascontiguousarray(raw) for raw in whole]
            gradient = grad.dense()
        flat = [piece.reshape(-1) for piece in pieces]
        update([flat[0], gradient.reshape(-1), *flat[1:]])
        for array, raw, piece in zip(arrays, whole, pieces, strict=True):
            if piece is not raw:
                raw[rows] = piece
            if isinstance(array, BaseSparseNDArray):
                array.assign_dense(raw)
