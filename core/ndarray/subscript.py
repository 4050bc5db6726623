"""``x[key]`` and ``x[key] = value``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..backends import Backend, backend_of
from ..errors import MXNetError
from ..types import Array, Shape, shape_size
from .conversion import host_array
from .handle import A, Handle
from .imperative import check_not_recorded
from .indexing import Key, covers, is_one_stretch, normalize_key, sliced_shape
from .nodes import IndexNode
from .tape import Entry, live, mode

__all__ = ["Subscript"]

INPLACE = (
    "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd. "
    "Assign to a whole array, or build the value with operators (concat, where)."
)

_WHOLE = slice(None)

Bounds = Sequence[int | None]


class Subscript(Handle[A]):
    """Indexing as NumPy's, with MXNet's exceptions (``core.ndarray.indexing``).

    A basic index whose elements are contiguous gives a view, every other a copy.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> A:
        if _is_whole(key):
            return cast(A, self)
        if type(key) is int and self.shape and -self.shape[0] <= key < self.shape[0]:
            return self._part(Key((key,), False))  # the commonest case, in a loop over the rows
        return self._part(normalize_key(_raw_key(key), self.shape))

    def _part(self, key: Key) -> A:
        backend = backend_of(self._context)
        with backend.scope():
            parts = _on_device(key, backend)
            part = self._data[parts]
            if not part.flags.c_contiguous:
                part = part.copy()
            if part.ndim == 0:
                part = part.reshape(1)
        result = self.wrap(part)
        result.version = self.version
        result.writable = self.writable
        origin = live(self._origin)
        if mode.recording and origin is not None:
            node = IndexNode(
                self._context,
                origin,
                self._data,
                parts,
                part.shape,
                is_advanced=key.is_advanced,
            )
            result._origin = Entry(node, 0)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        self.check_writable()
        check_not_recorded([self])
        index = normalize_key(... if _is_whole(key) else _raw_key(key), self.shape)
        if isinstance(value, Handle):
            if value is self:
                return
            if covers(index, self.shape) and _squeezed(value.shape) == _squeezed(self.shape):
                source = value if value.shape == self.shape else value.reshape(self.shape)
                source.copyto(self)
                return
            if mode.recording and live(value._origin) is not None:
                raise MXNetError(INPLACE)
        backend = backend_of(self._context)
        with backend.scope():
            raw = self._assignable(value, backend)
            parts = _on_device(index, backend)
            if raw.ndim:
                raw = _without_leading(raw, self._data[parts].ndim)
            self._data[parts] = raw
        if self.version is not None:
            self.version.bump()

    def at(self, idx: int) -> A:
        """Return the view of one entry of the first axis."""
        return self[idx]

    _at = at

    def _slice(self, start: int | None, stop: int | None) -> A:
        """Return the view of entries ``start`` to ``stop`` of the first axis."""
        return self[start:stop]

    def slice_assign(self, rhs: Handle[Any], begin: Bounds, end: Bounds, step: Bounds) -> A:
        """Assign to ``[begin:end:step]`` along the first axes; None stands for no bound."""
        self[_slices(begin, end, step)] = rhs
        return cast(A, self)

    def slice_assign_scalar(self, value: float, begin: Bounds, end: Bounds, step: Bounds) -> A:
        """Assign a number to ``[begin:end:step]`` along the first axes."""
        self[_slices(begin, end, step)] = value
        return cast(A, self)

    @staticmethod
    def _basic_indexing_sliced_shape(slc_key: Sequence[slice], shape: Shape) -> Shape:
        """Return the shape of what slices, one for each axis, take of a shape."""
        return sliced_shape(slc_key, shape)

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: Sequence[slice], shape: Shape) -> bool:
        """Tell whether slices, one for each axis, take one stretch of memory."""
        return is_one_stretch(slc_key, shape)

    @staticmethod
    def _basic_indexing_contiguous_flat_begin_end(
        slc_key: Sequence[slice], shape: Shape
    ) -> tuple[int, int]:
        """Return where the stretch of memory that slices take begins and ends."""
        count = shape_size(sliced_shape(slc_key, shape))
        if count == 0:
            return 0, 0
        starts = [part.indices(size)[0] for part, size in zip(slc_key, shape, strict=True)]
        begin = int(np.ravel_multi_index(starts, shape))
        return begin, begin + count

    def _sync_copyfrom(self, source_array: Any) -> None:
        """Copy from anything array-like of the same shape."""
        source = np.asarray(source_array)
        if source.shape != self.shape:
            raise ValueError(f"Shape inconsistent: expected {self.shape} vs got {source.shape}")
        self[:] = source

    def _assignable(self, value: Any, backend: Backend) -> Array:
        """Return a value as a raw array of this device and dtype."""
        if isinstance(value, Handle):
            return backend.asarray(value.dense()).astype(self.dtype, copy=False)
        try:
            return backend.asarray(host_array(value, np.dtype(self.dtype)))
        except (TypeError, ValueError):
            raise TypeError(
                f"NDArray does not support assignment with non-array-like object {value!r} "
                f"of type {type(value)}"
            ) from None


def _slices(begin: Bounds, end: Bounds, step: Bounds) -> tuple[slice, ...]:
    steps = step or (None,) * len(begin)
    return tuple(slice(*bounds) for bounds in zip(begin, end, steps, strict=True))


def _is_whole(key: Any) -> bool:
    """Tell whether a key is ``[:]`` or ``[()]``, which mean the array itself."""
    return (isinstance(key, slice) and key == _WHOLE) or (isinstance(key, tuple) and not key)


def _raw_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_raw_index(part) for part in key)
    return _raw_index(key)


def _raw_index(part: Any) -> Any:
    if not isinstance(part, Handle):
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
    """Drop leading axes of length 1 until ``ndim`` are left."""
    while raw.ndim > ndim and raw.shape[0] == 1:
        raw = raw[0]
    return raw
