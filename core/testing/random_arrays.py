"""Random dense arrays, shapes and coordinates, and arithmetic for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray, arange, array, broadcast_to
from ..types import Array, Shape
from .tolerances import default_dtype

__all__ = [
    "assign_each",
    "assign_each2",
    "collapse_sum_like",
    "create_2d_tensor",
    "create_vector",
    "get_identity_mat",
    "get_identity_mat_batch",
    "np_reduce",
    "rand_coord_2d",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
]


def random_arrays(*shapes: Shape) -> Any:
    """Return normally distributed NumPy arrays, one for each shape; a single one is not in a
    list."""
    arrays = [np.asarray(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(
    *shapes: Shape, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32
) -> list[Array]:
    """Return NumPy arrays of numbers from [low, high), one for each shape."""
    return [np.asarray(np.random.uniform(low, high, size=s)).astype(dtype) for s in shapes]


def random_sample(population: Sequence[Any], k: int) -> Any:
    """Return ``k`` elements of a list in random order."""
    if not 0 <= k <= len(population):
        raise AssertionError(f"cannot draw {k} of {len(population)} elements")
    shuffled: Any = population[:]
    np.random.shuffle(shuffled)
    return shuffled[:k]


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, int]:
    """Return a random shape with two axes, each up to its given length."""
    low = int(not allow_zero_size)
    return _draw(low, dim0 + 1), _draw(low, dim1 + 1)


def rand_shape_3d(
    dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
) -> tuple[int, int, int]:
    """Return a random shape with three axes, each up to its given length."""
    low = int(not allow_zero_size)
    return _draw(low, dim0 + 1), _draw(low, dim1 + 1), _draw(low, dim2 + 1)


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> Shape:
    """Return a random shape with ``num_dim`` axes, each up to ``dim`` long."""
    low = int(not allow_zero_size)
    return tuple(_draw(low, dim + 1) for _ in range(num_dim))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """Return a random point of a rectangle, without its upper ends."""
    return _draw(x_low, x_high), _draw(y_low, y_high)


def np_reduce(
    dat: Array,
    axis: int | Sequence[int] | None,
    keepdims: bool,
    numpy_reduce_func: Callable[..., Array],
) -> Array:
    """Reduce over one, several or (None) all axes, one at a time."""
    if axis is None:
        axes: list[int] = list(range(dat.ndim))
    else:
        axes = [axis] if isinstance(axis, int) else list(axis)
    reduced = dat
    for one in sorted(axes, reverse=True):
        reduced = numpy_reduce_func(reduced, axis=one)
    if not keepdims:
        return reduced
    kept = list(dat.shape)
    for one in axes:
        kept[one] = 1
    return reduced.reshape(kept)


def collapse_sum_like(a: Array, shape: Shape) -> Array:
    """Sum an array over the axes along which ``shape`` would be broadcast to it."""
    if a.size == 0 or 0 in shape:
        return np.zeros(shape, dtype=a.dtype)
    extra = a.ndim - len(shape)
    axes = [*range(extra)]
    axes += [extra + i for i, length in enumerate(shape) if length != a.shape[extra + i]]
    summed: Array = np.sum(a, axis=tuple(axes)).reshape(shape)
    return summed


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> Array:
    """Return a function of each element, as float64; without a function, a copy."""
    if function is None:
        return np.array(the_input)
    values = np.asarray(the_input)
    results = [function(one) for one in values.ravel()]
    return np.array(results, dtype=np.float64).reshape(values.shape)


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> Array:
    """Return a function of each pair of elements, as float64; without one, a copy of the first
    array.

    Raises:
        AssertionError: the shapes differ.
    """
    if function is None:
        return np.array(input1)
    first, second = np.asarray(input1), np.asarray(input2)
    if first.shape != second.shape:
        raise AssertionError(f"shapes {first.shape} and {second.shape} differ")
    results = [function(x, y) for x, y in zip(first.ravel(), second.ravel(), strict=True)]
    return np.array(results, dtype=np.float64).reshape(first.shape)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """Return an NDArray in which each row is filled with its index."""
    numbers = create_vector(rows, dtype).reshape((rows, 1))
    result: NDArray = broadcast_to(numbers, shape=(rows, columns))
    return result


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """Return the NDArray 0, 1, ..., size - 1."""
    return arange(0, size, dtype=dtype)


def get_identity_mat(size: int) -> NDArray:
    """Return the identity matrix."""
    return array(np.eye(size, dtype=np.float32))


def get_identity_mat_batch(size: int) -> NDArray:
    """Return two identity matrices."""
    return array(np.stack([np.eye(size, dtype=np.float32)] * 2))


def _draw(low: int, high: int) -> int:
    return int(np.random.randint(low, high))
