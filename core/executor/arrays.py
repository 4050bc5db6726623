"""Arrays to which executors are bound: new ones, and views of larger ones."""

from __future__ import annotations

from ..backends import backend_of
from ..device import Context
from ..ndarray import NDArray
from ..types import DType, Shape, shape_size

__all__ = ["resized", "zeros"]


def zeros(shape: Shape, dtype: DType, context: Context) -> NDArray:
    """Return a new array of zeros that starts on a cache line."""
    backend = backend_of(context)
    raw = backend.empty(shape, dtype)
    with backend.scope():
        raw.fill(0)
    return NDArray(raw, context)


def resized(array: NDArray, shape: Shape) -> NDArray:
    """Return a view of the beginning of an array's memory in another shape."""
    if array.shape == shape:
        return array
    beginning = array.dense().reshape(-1)[: shape_size(shape)].reshape(shape)
    return NDArray(beginning, array.context, version=array.version)
