"""The same elements under another shape: methods of ``NDArray``, as functions of an array.

Those that say so share its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..errors import ShapeError
from ..ops import Operator
from ..types import Shape, shape_size
from .execute import operator_of
from .handle import A, Handle
from .imperative import record
from .tape import Entry

__all__ = [
    "broadcast_like",
    "broadcast_to",
    "expand_dims",
    "flatten",
    "reshape",
    "split_v2",
    "squeeze",
    "transposed",
]


def reshape(array: Handle[A], *shape: Any, **kwargs: Any) -> A:
    """Return the same memory under another shape (a copy if the memory is strided).

    Args:
        *shape: dimensions, or one tuple. 0 keeps a dimension, -1 is inferred, -2 keeps the
            rest, -3 merges two, -4 splits one in the two that follow (as ``nd.Reshape``).
        **kwargs: ``shape``, instead of the above; ``reverse``: match from the right.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    elif not shape and "shape" in kwargs:
        shape = tuple(kwargs["shape"])
    if unknown := kwargs.keys() - {"shape", "reverse"}:
        raise TypeError(f"reshape got {min(unknown)!r}; it takes 'shape' and 'reverse'")
    if array.size == 0 or shape == ():
        return _reshape_plainly(array, shape)
    op = operator_of("Reshape", {"shape": shape, "reverse": bool(kwargs.get("reverse"))})
    _, (target,) = op.infer_shape([array.shape], [None])
    if target is None or shape_size(target) != array.size:
        raise ShapeError(f"Cannot reshape array of size {array.size} into shape {shape}")
    return _view(array, op, target)


def flatten(array: Handle[A], inplace: bool = False) -> A:
    """Return (first axis, all others); a view with ``inplace``, else a copy."""
    if inplace:
        return array.reshape((0, -1))
    return cast(A, array._call_operator("Flatten", array))


def expand_dims(array: Handle[A], axis: int, inplace: bool = False) -> A:
    """Return the array with an axis of length 1; a view with ``inplace``, else a copy."""
    if not inplace:
        return cast(A, array._call_operator("expand_dims", array, axis=axis))
    if not -array.ndim - 1 <= axis <= array.ndim:
        raise ShapeError(f"axis {axis} is out of range for an array of {array.ndim} dimensions")
    at = axis % (array.ndim + 1)
    return array.reshape((*array.shape[:at], 1, *array.shape[at:]))


def squeeze(array: Handle[A], axis: Any = None, inplace: bool = False) -> A:
    """Return the array without axes of length 1; a view with ``inplace``, else a copy."""
    if not inplace:
        return cast(A, array._call_operator("squeeze", array, axis=axis))
    # NumPy computes the shape and checks the axes on an array that takes no memory.
    target = np.broadcast_to(np.False_, array.shape).squeeze(axis).shape
    return array.reshape(target or (1,))


def split_v2(
    array: Handle[A],
    indices_or_sections: int | tuple[int, ...],
    axis: int = 0,
    squeeze_axis: bool = False,
) -> A | list[A]:
    """Return the parts of the array along an axis.

    Args:
        indices_or_sections: a number of equal parts, or the indices where parts begin.
        axis: which axis.
        squeeze_axis: drop the axis from the parts; their length must be 1.

    Raises:
        ValueError: the parts would not be equal, or the argument is neither of the two.
    """
    length = array.shape[axis]
    if isinstance(indices_or_sections, int):
        if length % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        begins = list(range(0, length, length // indices_or_sections))
    elif isinstance(indices_or_sections, tuple):
        begins = [0, *indices_or_sections]
    else:
        raise ValueError("indices_or_sections must either int or tuple of ints")
    found: A | list[A] = array._call_operator(
        "_split_v2", array, indices=tuple(begins), axis=axis, squeeze_axis=squeeze_axis
    )
    return found


def broadcast_to(array: Handle[A], shape: int | Sequence[int]) -> A:
    """Return a copy with axes of length 1 repeated; new axes come first."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    padded = (1,) * (len(shape) - array.ndim) + array.shape
    if len(padded) != len(shape) or any(
        old not in (1, new) for old, new in zip(padded, shape, strict=True)
    ):
        raise ValueError(
            "operands could not be broadcast together with remapped shapes"
            f"[original->remapped]: {array.shape} and requested shape {shape}"
        )
    source = cast(A, array) if padded == array.shape else array.reshape(padded)
    return cast(A, array._call_operator("broadcast_to", source, shape=shape))


def broadcast_like(array: Handle[A], other: Handle[Any]) -> A:
    """Return a copy broadcast to the other's shape."""
    return broadcast_to(array, other.shape)


def transposed(array: Handle[A]) -> A:
    """Return a copy with its axes reversed."""
    return cast(A, array) if array.ndim < 2 else cast(A, array._call_operator("transpose", array))


def _view(array: Handle[A], op: Operator, shape: Shape) -> A:
    raw = array._data.reshape(shape)
    result = array.wrap(raw)
    result.writable, result.version = array.writable, array.version
    node = record(op, array._context, [array], [array._data], [raw])
    result._origin = None if node is None else Entry(node, 0)
    return result


def _reshape_plainly(array: Handle[A], shape: Shape) -> A:
    """Reshape where MXNet's codes mean nothing: arrays without elements or axes."""
    try:
        result = array.wrap(array._data.reshape(shape))
    except ValueError:
        raise ShapeError(f"Cannot reshape array of size {array.size} into shape {shape}") from None
    result.writable, result.version = array.writable, array.version
    return result
