"""Index keys as MXNet takes them, turned into NumPy's.

MXNet follows NumPy with these exceptions: boolean arrays index by their integers 0 and 1, a result
without axes has shape (1,), and a basic index gives a view only where the elements are contiguous.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..types import Shape

__all__ = ["Key", "covers", "is_integer", "normalize_key"]

Index: TypeAlias = Any


class Key(NamedTuple):
    """A key that NumPy understands.

    Attributes:
        parts: ints, slices, None and integer arrays, with the ellipsis expanded.
        is_advanced: True if an array takes part.
    """

    parts: tuple[Index, ...]
    is_advanced: bool


def is_integer(value: Any) -> bool:
    """Return whether a value is a Python or NumPy integer."""
    return isinstance(value, (int, np.integer))


def normalize_key(key: Any, shape: Shape) -> Key:
    """Check a key against the shape it indexes.

    Raises:
        IndexError: too many indices, two ellipses, an index out of bounds.
        ValueError: an index of a type that is not supported.
    """
    parts = key if isinstance(key, tuple) else (key,)
    given = len(parts) - sum(part is None or part is Ellipsis for part in parts)
    if given > len(shape):
        raise IndexError(f"too many indices ({given}) for array with {len(shape)} dimensions")
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("Cannot use more than one ellipsis (`...`) for indexing")
    fill = (slice(None),) * (len(shape) - given)
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    expanded = (*parts, *fill) if at is None else (*parts[:at], *fill, *parts[at + 1 :])
    checked: list[Index] = []
    axis = 0
    for part in expanded:
        if part is None:
            checked.append(None)
            continue
        checked.append(_check_part(part, axis, shape[axis], key))
        axis += 1
    return Key(tuple(checked), any(isinstance(part, np.ndarray) for part in checked))


def covers(key: Key, shape: Shape) -> bool:
    """Return whether a key takes all elements in their order."""
    axes = [part for part in key.parts if part is not None]
    return not key.is_advanced and all(
        isinstance(part, slice) and part.indices(size) == (0, size, 1)
        for part, size in zip(axes, shape, strict=True)
    )


def _check_part(part: Index, axis: int, size: int, key: Any) -> Index:
    if isinstance(part, slice):
        if part.step == 0:
            raise ValueError("slice step cannot be zero")
        return part
    if is_integer(part):
        if not -size <= part < size:
            raise IndexError(f"index {part} is out of bounds for axis {axis} with size {size}")
        return int(part)
    if isinstance(part, (np.ndarray, list, tuple, range)):
        indices = np.asarray(part)
        if indices.dtype.kind not in "iufb":
            raise _unsupported(key)
        indices = indices.astype(np.int64)
        if indices.size and not (-size <= indices.min() and indices.max() < size):
            worst = indices.min() if indices.min() < -size else indices.max()
            raise IndexError(f"index {worst} is out of bounds for axis {axis} with size {size}")
        return indices
    raise _unsupported(key)


def _unsupported(key: Any) -> ValueError:
    return ValueError(
        f"NDArray does not support slicing with key {key!r} of type {type(key)}; use integers, "
        "slices, None, ..., and integer arrays or lists"
    )
