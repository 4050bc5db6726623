"""``RowSparseNDArray``: some rows of an array, as gradients and large parameters have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..backends import backend_of
from ..device import Context
from ..errors import MXNetError
from ..ops.csr import Csr
from ..ops.rows import Rows, distinct, sum_rows
from ..types import Array, DType, Shape
from .array import NDArray
from .handle import STORAGE_CLASSES
from .sparse_base import BaseSparseNDArray
from .tape import mode

__all__ = ["RowSparseNDArray", "add_row_sparse"]

_INT64 = np.dtype(np.int64)


class RowSparseNDArray(BaseSparseNDArray):
    """Some rows of an array whose other rows are zero; indices ascend."""

    __slots__ = ("_memory",)

    _memory: Array | None

    def __init__(
        self,
        shape: Shape = (),
        values: Array = None,
        auxiliary: tuple[Array, ...] = (),
        ctx: Context | None = None,
    ) -> None:
        super().__init__(shape, values, auxiliary, ctx)
        self._memory = None

    @classmethod
    def over(cls, dense: NDArray) -> RowSparseNDArray:
        """Return an array of all rows of a dense one, which it keeps up to date.

        Code that computes with the dense array sees changes at once, and nothing is copied. From
        now on all changes must be made through the returned array.
        """
        backend, context = backend_of(dense.context), dense.context
        memory = dense.dense()
        with backend.scope():
            rows = backend.xp.arange(memory.shape[0], dtype=_INT64)
        array = cls(memory.shape, memory, (rows,), context)
        array._memory, array.version = memory, dense.version
        return array

    @property
    def memory(self) -> Array | None:
        """Raw dense memory that the array keeps up to date; None if it has none."""
        return self._memory

    @property
    def stype(self) -> str:
        """``"row_sparse"``."""
        return "row_sparse"

    @property
    def indices(self) -> NDArray:
        """Numbers of the rows stored, int64."""
        return NDArray(self._auxiliary[0], self._context)

    @classmethod
    def zeros(cls, shape: Shape, ctx: Context, dtype: DType) -> RowSparseNDArray:
        """Return an array without stored rows."""
        backend = backend_of(ctx)
        shape = tuple(shape)
        values = backend.empty((0, *shape[1:]), dtype)
        return cls(shape, values, (backend.empty((0,), _INT64),), ctx)

    def dense(self) -> Array:
        """Return the raw values of all rows, those not stored as zeros; for reading only."""
        if self._memory is not None:
            return self._memory
        backend = backend_of(self._context)
        with backend.scope():
            raw = backend.xp.zeros(self.shape, self._data.dtype)
            raw[self._auxiliary[0]] = self._data
        return raw

    def assign_dense(self, raw: Array) -> None:
        """Store the rows of a raw array that are not zero."""
        backend = backend_of(self._context)
        with backend.scope():
            raw = backend.asarray(raw)
            rows = backend.xp.flatnonzero((raw != 0).reshape(raw.shape[0], -1).any(axis=1))
            self._hold(raw[rows].astype(self._data.dtype), (rows.astype(_INT64),))

    def _fill(self, value: float) -> None:
        """Make all elements equal. As in MXNet every row is stored then, of zeros as well."""
        backend = backend_of(self._context)
        with backend.scope():
            values = backend.xp.full(self.shape, value, self._data.dtype)
            self._hold(values, (backend.xp.arange(self.shape[0], dtype=_INT64),))

    def container(self) -> Rows:
        """Return the rows as operators take them; nothing is copied."""
        rows = Rows(self.shape, self._data.dtype)
        rows.keep(self._auxiliary[0], self._data)
        return rows

    def take(self, container: Rows | Csr) -> None:
        """Replace the stored rows by an operator's, sharing its arrays."""
        assert isinstance(container, Rows)
        indices, values = container.indices, container.values
        if indices is None:
            backend = backend_of(self._context)
            indices = backend.empty((0,), _INT64)
            values = backend.empty((0, *self.shape[1:]), self._data.dtype)
        # The operator may have passed on its input's index array, which `indices` lets scripts
        # write to.
        self._hold(values, (indices.copy(),))

    def take_gradient(self, gradient: NDArray, *, add: bool) -> None:
        """Write a gradient into this buffer, or add it; of a sparse one the rows alone."""
        if not isinstance(gradient, RowSparseNDArray):
            super().take_gradient(gradient, add=add)
            return
        here = cast(RowSparseNDArray, gradient.as_in_context(self._context))
        (add_row_sparse([self, here]) if add else here).copyto(self)

    def retain(self, indices: NDArray | Any) -> RowSparseNDArray:
        """Return the array with only the rows given (those that are stored)."""
        backend = backend_of(self._context)
        raw = indices.asnumpy() if isinstance(indices, NDArray) else np.asarray(indices)
        with backend.scope():
            wanted = backend.asarray(distinct(np, raw.reshape(-1).astype(_INT64)))
            places, is_stored = self._find(wanted)
            parts = self._data[places[is_stored]], (wanted[is_stored],)
        return RowSparseNDArray(self.shape, *parts, self._context)

    def read_rows(self, rows: Array) -> Array:
        """Return a copy of the rows that a raw array numbers; those not stored are zeros."""
        with backend_of(self._context).scope():
            places, is_stored = self._find(rows)
            if not self._data.shape[0]:
                return backend_of(self._context).xp.zeros(
                    (*rows.shape, *self.shape[1:]), self._data.dtype
                )
            values = self._data[places]
            values[~is_stored] = 0
        return values

    def write_rows(self, rows: Array, values: Array) -> None:
        """Set the rows that a raw array numbers, in ascending order; the others stay."""
        backend = backend_of(self._context)
        with backend.scope():
            xp, stored = backend.xp, self._auxiliary[0]
            places, is_stored = self._find(rows)
            if is_stored.all():
                self._data[places] = values
                # The stored rows are the memory itself only as long as all rows are stored.
                if self._memory is not None and self._data is not self._memory:
                    self._memory[rows] = values
                self._changed()
                return
            every = xp.union1d(stored, rows)
            merged = xp.empty((every.shape[0], *self.shape[1:]), self._data.dtype)
            merged[xp.searchsorted(every, stored)] = self._data
            merged[xp.searchsorted(every, rows)] = values
            self._hold(merged, (every,))

    def _find(self, rows: Array) -> tuple[Array, Array]:
        """Return where rows are stored, and which of them are."""
        xp, stored = backend_of(self._context).xp, self._auxiliary[0]
        if stored.shape[0] == self.shape[0]:
            # Ascending distinct indices as many as rows: each row is stored at its own number.
            return rows, xp.ones(rows.shape, bool)
        if not stored.shape[0]:
            return xp.zeros(rows.shape, _INT64), xp.zeros(rows.shape, bool)
        places = xp.minimum(xp.searchsorted(stored, rows), stored.shape[0] - 1)
        return places, stored[places] == rows

    def _hold(self, values: Array, auxiliary: tuple[Array, ...]) -> None:
        memory = self._memory
        if memory is not None:
            with backend_of(self._context).scope():
                memory[self._auxiliary[0]] = 0
                memory[auxiliary[0]] = values
            values = memory if values.shape == memory.shape else values
        super()._hold(values, auxiliary)
        self._changed()

    def _changed(self) -> None:
        if self.version is not None:
            self.version.bump()

    def _binary(self, array_op: str, scalar_op: str, other: Any) -> NDArray:
        alike = isinstance(other, RowSparseNDArray) and other.shape == self.shape
        if array_op == "broadcast_add" and alike and not mode.recording:
            return add_row_sparse([self, other])
        return super()._binary(array_op, scalar_op, other)

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError if the indices do not make an array of this shape."""
        rows = backend_of(self._context).to_host(self._auxiliary[0])
        ok = self._data.shape == (rows.size, *self.shape[1:])
        if ok and full_check and rows.size:
            ok = bool(rows[0] >= 0 and rows[-1] < self.shape[0] and (np.diff(rows) > 0).all())
        if not ok:
            raise MXNetError(
                f"row indices {rows} do not fit {self._data.shape} stored in shape {self.shape}; "
                "they ascend, from 0 to the first length"
            )

    def __getitem__(self, key: Any) -> NDArray:
        if isinstance(key, slice) and key == slice(None):
            return self
        raise ValueError("RowSparseNDArray only supports [:] for __getitem__")


STORAGE_CLASSES["row_sparse"] = RowSparseNDArray


def add_row_sparse(arrays: Sequence[RowSparseNDArray]) -> RowSparseNDArray:
    """Return the sum of arrays of one shape and device, with the rows of all."""
    first = arrays[0]
    backend = backend_of(first.context)
    with backend.scope():
        xp = backend.xp
        indices = xp.concatenate([array._auxiliary[0] for array in arrays])
        values = xp.concatenate([array._data for array in arrays])
        rows, sums = sum_rows(xp, indices, values, first._data.dtype)
    return RowSparseNDArray(first.shape, sums, (rows,), first.context)
