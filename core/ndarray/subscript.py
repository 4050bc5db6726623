"""``x[key]`` and ``x[key] = value``, as functions of an array.

Indexing is NumPy's, with MXNet's exceptions (``core.ndarray.indexing``). A basic index whose
elements are contiguous gives a view, every other a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..backends import Backend, backend_of
from ..errors import MXNetError
from ..types import Array, Shape
from .conversion import host_array
from .handle import A, Handle, is_array
from .imperative import check_not_recorded
from .indexing import Key, covers, normalize_key
from .nodes import IndexNode
from .np_shape import is_np_shape
from .tape import Entry, live, mode

__all__ = ["at", "get_item", "set_item", "slice_assign", "slice_assign_scalar", "stretch"]

INPLACE = (
    "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd. "
    "Assign to a whole array, or build the value with operators (concat, where)."
)

_WHOLE = slice(None)

Bounds = Sequence[int | None]


def get_item(array: Handle[A], key: Any) -> A:
    if _is_whole(key):
        return cast(A, array)
    if type(key) is int and array.shape and -array.shape[0] <= key < array.shape[0]:
        return _part(array, Key((key,), False))  # the commonest case, in a loop over the rows
    return _part(array, normalize_key(_raw_key(key), array.shape))


def _part(array: Handle[A], key: Key) -> A:
    backend = backend_of(array._context)
    with backend.scope():
        parts = _on_device(key, backend)
        part = array._data[parts]
        if not part.flags.c_contiguous:
            part = part.copy()
        if part.ndim == 0:
            part = part.reshape(() if is_np_shape() else 1)
    result = array.wrap(part)
    result.version = array.version
    result.writable = array.writable
    origin = live(array._origin)
    if mode.recording and origin is not None:
        node = IndexNode(
            array._context,
            origin,
            array._data,
            parts,
            part.shape,
            is_advanced=key.is_advanced,
        )
        result._origin = Entry(node, 0)
    return result


def set_item(array: Handle[A], key: Any, value: Any) -> None:
    array.check_writable()
    check_not_recorded([array])
    index = normalize_key(... if _is_whole(key) else _raw_key(key), array.shape)
    if is_array(value):
        if value is array:
            return
        # A copy, which autograd can record, other than an assignment to a part.
        if covers(index, array.shape) and _squeezed(value.shape) == _squeezed(array.shape):
            source = value if value.shape == array.shape else value.reshape(array.shape)
            source.copyto(array)
            return
        if mode.recording and live(value._origin) is not None:
            raise MXNetError(INPLACE)
    backend = backend_of(array._context)
    with backend.scope():
        raw = _assignable(array, value, backend)
        parts = _on_device(index, backend)
        if raw.ndim:
            raw = _without_leading(raw, array._data[parts].ndim)
        array._data[parts] = raw
    if array.version is not None:
        array.version.bump()


def at(array: Handle[A], idx: int) -> A:
    """Return the view of one entry of the first axis."""
    return cast(A, cast(Any, array)[idx])


def stretch(array: Handle[A], start: int | None, stop: int | None) -> A:
    """Return the view of entries ``start`` to ``stop`` of the first axis."""
    return cast(A, cast(Any, array)[start:stop])


def slice_assign(array: Handle[A], rhs: Handle[Any], begin: Bounds, end: Bounds, step: Bounds) -> A:
    """Assign to ``[begin:end:step]`` along the first axes; None stands for no bound."""
    cast(Any, array)[_slices(begin, end, step)] = rhs
    return cast(A, array)


def slice_assign_scalar(
    array: Handle[A], value: float, begin: Bounds, end: Bounds, step: Bounds
) -> A:
    """Assign a number to ``[begin:end:step]`` along the first axes."""
    cast(Any, array)[_slices(begin, end, step)] = value
    return cast(A, array)


def _assignable(array: Handle[A], value: Any, backend: Backend) -> Array:
    """Return a value as a raw array of this device and dtype."""
    if is_array(value):
        return backend.asarray(value.dense()).astype(array.dtype, copy=False)
    try:
        return backend.asarray(host_array(value, np.dtype(array.dtype)))
    except (TypeError, ValueError):
        raise TypeError(
            f"NDArray does not support assignment with non-array-like object {value!r} "
            f"of type {type(value)}"
        ) from None


def _slices(begin: Bounds, end: Bounds, step: Bounds) -> tuple[slice, ...]:
    steps = step or (None,) * len(begin)
    return tuple(slice(*bounds) for bounds in zip(begin, end, steps, strict=True))


def _is_whole(key: Any) -> bool:
    """Return whether a key is ``[:]`` or ``[()]``, which mean the array itself."""
    return (isinstance(key, slice) and key == _WHOLE) or (isinstance(key, tuple) and not key)


def _raw_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_raw_index(part) for part in key)
    return _raw_index(key)


def _raw_index(part: Any) -> Any:
    if not is_array(part):
        return part
    if part.dtype is np.bool_:
        raise ValueError(
            "Cannot perform boolean indexing in legacy mode; use nd.contrib.boolean_mask, or "
            "asnumpy()"
        )
    return backend_of(part.context).to_host(part.dense())


def _on_device(key: Key, backend: Backend) -> tuple[Any, ...]:
    if not key.is_advanced:
        return key.parts
    return tuple(
        backend.asarray(part) if isinstance(part, np.ndarray) else part for part in key.parts
    )


def _squeezed(shape: Shape) -> Shape:
    return tuple(dim for dim in shape if dim != 1)


def _without_leading(raw: Array, ndim: int) -> Array:
    """Drop leading axes of length 1 until ``ndim`` are left.

    NumPy does so itself except for a single element, which MXNet assigns from shape (1,).
    """
    while raw.ndim > ndim and raw.shape[0] == 1:
        raw = raw[0]
    return raw
