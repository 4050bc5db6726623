"""``CSRNDArray``: sparse matrices in compressed rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import backend_of
from ..device import Context, current_context
from ..errors import MXNetError, UsageError
from ..ops.csr import Csr, Pattern
from ..ops.rows import Rows
from ..types import Array, DType, Shape, to_dtype
from .array import NDArray
from .handle import STORAGE_CLASSES
from .row_sparse import RowSparseNDArray, add_row_sparse
from .sparse_base import BaseSparseNDArray

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "add_row_sparse",
    "sparse_zeros",
]

_INT64 = np.dtype(np.int64)


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed rows: row i has columns ``indices[indptr[i]:indptr[i + 1]]``."""

    __slots__ = ()

    @property
    def stype(self) -> str:
        """``"csr"``."""
        return "csr"

    @property
    def indptr(self) -> NDArray:
        """Where each row starts in ``indices`` and ``data``, int64."""
        return NDArray(self._auxiliary[0], self._context)

    @property
    def indices(self) -> NDArray:
        """Columns of the stored values, int64."""
        return NDArray(self._auxiliary[1], self._context)

    @classmethod
    def zeros(cls, shape: Shape, ctx: Context, dtype: DType) -> CSRNDArray:
        """Return a matrix without stored values."""
        backend = backend_of(ctx)
        with backend.scope():
            indptr = backend.xp.zeros(shape[0] + 1, _INT64)
        return cls(shape, backend.empty((0,), dtype), (indptr, backend.empty((0,), _INT64)), ctx)

    def dense(self) -> Array:
        """Return the raw dense copy; values stored twice add up."""
        backend = backend_of(self._context)
        with backend.scope():
            xp, (indptr, columns) = backend.xp, self._auxiliary
            raw = xp.zeros(self.shape, self._data.dtype)
            xp.add.at(raw, (_rows_of(xp, indptr, columns), columns), self._data)
        return raw

    def assign_dense(self, raw: Array) -> None:
        """Store the values of a raw matrix that are not zero."""
        backend = backend_of(self._context)
        with backend.scope():
            xp, raw = backend.xp, backend.asarray(raw)
            rows, columns = xp.nonzero(raw)
            self._data = raw[rows, columns].astype(self._data.dtype)
            counts = xp.bincount(rows, minlength=self.shape[0])
            indptr = xp.concatenate([xp.zeros(1, _INT64), xp.cumsum(counts)]).astype(_INT64)
            self._auxiliary = (indptr, columns.astype(_INT64))

    def container(self) -> Csr:
        """Return the matrix as operators take it; nothing is copied."""
        matrix = Csr(self.shape, self._data.dtype)
        matrix.keep(Pattern(backend_of(self._context).xp, *self._auxiliary), self._data)
        return matrix

    def take(self, container: Rows | Csr) -> None:
        """Replace what is stored by an operator's result, sharing its arrays."""
        assert isinstance(container, Csr)
        pattern = container.pattern
        # Copied, because operators share the pattern of a matrix between their inputs and outputs,
        # and scripts can write to these arrays.
        self._hold(container.data, (pattern.indptr.copy(), pattern.columns.copy()))

    def asscipy(self) -> Any:
        """Return a ``scipy.sparse.csr_matrix``; needs SciPy."""
        # Imported here, because nothing else in the engine needs SciPy.
        import scipy.sparse  # type: ignore[import-not-found, import-untyped, unused-ignore]

        parts = self.data.asnumpy(), self.indices.asnumpy(), self.indptr.asnumpy()
        return scipy.sparse.csr_matrix(parts, shape=self.shape, dtype=self.dtype)

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError if pointers and columns do not make a matrix of this shape."""
        to_host = backend_of(self._context).to_host
        indptr, columns = (to_host(part) for part in self._auxiliary)
        ok = indptr.shape == (self.shape[0] + 1,) and columns.shape == self._data.shape
        if ok and full_check:
            ok = (
                indptr[0] == 0 and indptr[-1] == columns.size and bool((np.diff(indptr) >= 0).all())
            )
            ok = ok and bool(((columns >= 0) & (columns < self.shape[1])).all())
            ok = ok and _ascend_in_rows(indptr, columns)
        if not ok:
            raise MXNetError(
                f"row pointers {indptr} and columns {columns} do not fit shape {self.shape} with "
                f"{self._data.size} values; columns ascend in each row"
            )

    def _fill(self, value: float) -> None:
        """Refuse all but zero, as MXNet does."""
        if value != 0:
            raise ValueError("Assigning numeric types to CSRNDArray is not implemented yet.")
        self.clear()

    def take_rows(self, rows: np.ndarray[Any, Any]) -> CSRNDArray:
        """Return a matrix of the rows with these numbers, in their order."""
        backend = backend_of(self._context)
        with backend.scope():
            xp, (indptr, columns) = backend.xp, self._auxiliary
            chosen = backend.asarray(rows)
            counts = (indptr[1:] - indptr[:-1])[chosen]
            taken = xp.concatenate([xp.zeros(1, _INT64), xp.cumsum(counts)]).astype(_INT64)
            # Each value's place: where its row starts here, and how far it is into its row.
            places = xp.arange(int(taken[-1])) + xp.repeat(indptr[chosen] - taken[:-1], counts)
            parts = self._data[places], (taken, columns[places])
        return CSRNDArray((len(rows), self.shape[1]), *parts, self._context)

    def __getitem__(self, key: Any) -> NDArray:
        if isinstance(key, (int, np.integer)):
            key = slice(key, key + 1 or None)  # the slice -1:0 would be empty
        if not isinstance(key, slice):
            raise ValueError("CSRNDArray only supports an integer or a slice on axis 0")
        if key.step not in (None, 1):
            raise ValueError("CSRNDArray only supports continuous slicing on axis 0")
        if key == slice(None):
            return self
        start, stop, _ = key.indices(self.shape[0])
        indptr = self._auxiliary[0][start : max(start, stop) + 1]
        first, last = int(indptr[0]), int(indptr[-1])
        parts = self._data[first:last].copy(), (indptr - first, self._auxiliary[1][first:last])
        return CSRNDArray((len(indptr) - 1, self.shape[1]), *parts, self._context)


STORAGE_CLASSES["csr"] = CSRNDArray


def sparse_zeros(
    stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None
) -> BaseSparseNDArray:
    """Return a sparse array with nothing stored."""
    cls = STORAGE_CLASSES.get(stype, NDArray)
    if not issubclass(cls, BaseSparseNDArray):
        raise UsageError(f"storage type is {stype!r}; expected 'row_sparse' or 'csr'")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if stype == "csr" and len(shape) != 2:
        raise ValueError(f"a csr array is a matrix; the shape is {shape}")
    return cls.zeros(
        shape, ctx or current_context(), to_dtype("float32" if dtype is None else dtype)
    )


def _ascend_in_rows(indptr: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> bool:
    """Return whether each column is right of the one before it, unless that is in another row."""
    begins_row = np.isin(np.arange(1, columns.size), indptr)
    return bool(((np.diff(columns) > 0) | begins_row).all())


def _rows_of(xp: Any, indptr: Array, columns: Array) -> Array:
    """Return the row of each stored value."""
    return xp.searchsorted(indptr, xp.arange(columns.shape[0]), side="right") - 1
