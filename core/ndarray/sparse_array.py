"""Sparse arrays: ``row_sparse`` (some rows of an array) and ``csr`` (compressed rows of a matrix).

They hold values and convert; an operator given one works on its dense copy.
"""

from __future__ import annotations

from typing import Any, NoReturn, cast

import numpy as np

from core.backends import backend_of
from core.device import Context, current_context
from core.errors import FormatError, MXNetError, NotSupportedForSparseNDArray, ShapeError
from core.ndarray.array import NDArray
from core.ndarray.stored import StoredArray
from core.types import Array, DType, Shape, to_dtype

__all__ = [
    "STORAGE_CLASSES",
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "cast_storage",
    "sparse_zeros",
]

_INT64 = np.dtype(np.int64)


_ELEMENTWISE = {f"broadcast_{name}": f"elemwise_{name}" for name in ("add", "sub", "mul", "div")}


class BaseSparseNDArray(NDArray):
    """What both kinds share: stored values and int64 index arrays.

    Args:
        shape: shape of the whole array.
        values: raw stored values.
        auxiliary: raw index arrays, in MXNet's order.
        ctx: the device.
    """

    __slots__ = ("_auxiliary", "_shape")

    _auxiliary: tuple[Array, ...]
    _shape: Shape

    def __init__(
        self,
        shape: Shape = (),
        values: Array = None,
        auxiliary: tuple[Array, ...] = (),
        ctx: Context | None = None,
    ) -> None:
        super().__init__(values, ctx)
        self._shape = tuple(int(dim) for dim in shape or ())
        self._auxiliary = auxiliary

    @property
    def shape(self) -> Shape:
        """Shape of the whole array."""
        return self._shape

    @property
    def data(self) -> NDArray:
        """The stored values."""
        return NDArray(self._data, self._context)

    @property
    def size(self) -> int:
        """Sparse arrays have no size, as in MXNet."""
        raise NotImplementedError(f"{type(self).__name__} has no size; use data.size or shape")

    def _binary(self, array_op: str, scalar_op: str, other: Any) -> NDArray:
        # The elementwise operators give sparse arrays where the broadcasting ones give dense ones.
        if isinstance(other, NDArray) and other.shape == self.shape:
            array_op = _ELEMENTWISE.get(array_op, array_op)
        return super()._binary(array_op, scalar_op, other)

    def __repr__(self) -> str:
        shape = "x".join(str(dim) for dim in self.shape)
        return f"\n<{type(self).__name__} {shape} @{self.context}>"

    def copyto(self, other: NDArray | Context) -> Any:
        """Copy into an array of this storage type or a dense one, or to a new one on a device."""
        if isinstance(other, Context):
            other = type(self).zeros(self.shape, other, np.dtype(self.dtype))
        if isinstance(other, BaseSparseNDArray) and other.stype != self.stype:
            raise TypeError(f"copyto does not support destination NDArray stype {other.stype}")
        if isinstance(other, type(self)) and other is not self:
            if other.shape != self.shape:
                raise ShapeError(f"copyto: the target has shape {other.shape}, not {self.shape}")
            other._copy_parts(self)
            return other
        return super().copyto(other)

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Return a copy of another dtype; with ``copy=False`` this array where it has it."""
        dtype = to_dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        return cast(NDArray, self.copyto(type(self).zeros(self.shape, self._context, dtype)))

    def detach(self) -> NDArray:
        """Return the same memory without the computation it came from."""
        return type(self)(self._shape, self._data, self._auxiliary, self._context)

    @property
    def _num_aux(self) -> int:
        """How many index arrays there are."""
        return len(self._auxiliary)

    def reshape(self, *shape: Any, **kwargs: Any) -> NoReturn:
        """Sparse arrays cannot be reshaped."""
        raise NotSupportedForSparseNDArray("reshape", type(self).__name__)

    def _at(self, idx: Any) -> NoReturn:
        """Sparse arrays have no views of their entries."""
        raise NotSupportedForSparseNDArray("_at", type(self).__name__)

    def _slice(self, start: Any, stop: Any) -> NoReturn:
        """Sparse arrays have no views of their entries."""
        raise NotSupportedForSparseNDArray("_slice", type(self).__name__)

    @classmethod
    def zeros(cls, shape: Shape, ctx: Context, dtype: DType) -> BaseSparseNDArray:
        """Return an array with nothing stored."""
        raise NotImplementedError

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError where the indices do not make an array of this shape.

        Args:
            full_check: check the values of the indices as well as their number.
        """
        raise NotImplementedError

    def _copy_parts(self, other: BaseSparseNDArray) -> None:
        backend = backend_of(self._context)
        values = backend.empty(other._data.shape, np.dtype(self.dtype))
        backend.copy_into(values, other._data)
        self._data = values
        self._auxiliary = tuple(_copy(part, self._context) for part in other._auxiliary)

    def stored(self) -> StoredArray:
        """Return the array as files hold it."""
        to_host = backend_of(self._context).to_host
        auxiliary = tuple(to_host(part) for part in self._auxiliary)
        return StoredArray(self.stype, self.shape, to_host(self._data), auxiliary, self._context)

    def restore(self, stored: StoredArray, context: Context) -> None:
        """Become the array that a file or pickle holds."""
        if stored.stype != self.stype:
            raise FormatError(
                f"a pickled {type(self).__name__} has storage type {stored.stype!r}, "
                f"not {self.stype!r}"
            )
        asarray = backend_of(context).asarray
        self._shape = stored.shape
        self._data = asarray(stored.data)
        self._auxiliary = tuple(asarray(part) for part in stored.auxiliary)
        self._context = context

    def __setitem__(self, key: Any, value: Any) -> None:
        name = type(self).__name__
        if not isinstance(key, slice) or key != slice(None):
            error = ValueError if isinstance(key, slice) else TypeError
            raise error(f"{name} only supports [:] for assignment")
        self.check_writable()
        if isinstance(value, NDArray):
            if value is not self:
                value.copyto(self)
        elif isinstance(value, np.ndarray):
            NDArray(value).copyto(self)
        elif isinstance(value, (int, float)):
            self._fill(value)
        else:
            raise TypeError(f"{name}[:] takes an NDArray, a NumPy array, a number, got {value!r}")

    def _fill(self, value: float) -> None:
        """Make all elements equal."""
        if value == 0:
            type(self).zeros(self.shape, self._context, np.dtype(self.dtype)).copyto(self)
        else:
            self.assign_dense(np.full(self.shape, value, self.dtype))

    def _binary_inplace(self, array_op: str, scalar_op: str, other: Any) -> NDArray:
        self._binary(array_op, scalar_op, other).copyto(self)
        return self


class RowSparseNDArray(BaseSparseNDArray):
    """Some rows of an array whose other rows are zero; indices ascend."""

    __slots__ = ()

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
        """Return the raw dense copy."""
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
            self._data = raw[rows].astype(self._data.dtype)
            self._auxiliary = (rows.astype(_INT64),)

    def retain(self, indices: NDArray | Any) -> RowSparseNDArray:
        """Return the array with only the rows given (those that are stored)."""
        backend = backend_of(self._context)
        with backend.scope():
            wanted = backend.asarray(np.asarray(indices)).astype(_INT64)
            keep = backend.xp.isin(self._auxiliary[0], wanted)
            parts = self._data[keep], (self._auxiliary[0][keep],)
        return RowSparseNDArray(self.shape, *parts, self._context)

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError where the indices do not make an array of this shape."""
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

    def asscipy(self) -> Any:
        """Return a ``scipy.sparse.csr_matrix``; needs SciPy."""
        import scipy.sparse  # type: ignore[import-not-found, import-untyped, unused-ignore]

        parts = self.data.asnumpy(), self.indices.asnumpy(), self.indptr.asnumpy()
        return scipy.sparse.csr_matrix(parts, shape=self.shape, dtype=self.dtype)

    def check_format(self, full_check: bool = True) -> None:
        """Raise MXNetError where pointers and columns do not make a matrix of this shape."""
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
        super()._fill(value)

    def __getitem__(self, key: Any) -> NDArray:
        if isinstance(key, (int, np.integer)):
            key = slice(key, key + 1 or None)
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


STORAGE_CLASSES: dict[str, type[NDArray]] = {
    "default": NDArray,
    "row_sparse": RowSparseNDArray,
    "csr": CSRNDArray,
}
"""The class of each storage type."""


def cast_storage(array: NDArray, stype: str) -> NDArray:
    """Return a copy of the array in another storage type.

    Raises:
        ValueError: unknown type, csr of an array that is no matrix, one sparse type to another.
    """
    if stype not in STORAGE_CLASSES:
        raise ValueError(f"storage type is {stype!r}; expected one of {', '.join(STORAGE_CLASSES)}")
    if stype == "csr" and len(array.shape) != 2:
        raise ValueError(f"a csr array is a matrix; the array has shape {array.shape}")
    if stype == array.stype:
        return array.copy()
    if stype == "default":
        raw = backend_of(array.context).empty(array.shape, np.dtype(array.dtype))
        return cast(NDArray, array.copyto(NDArray(raw, array.context)))
    if array.stype != "default":
        raise ValueError(f"cast_storage from {array.stype} to {stype} is not supported")
    return cast(NDArray, array.copyto(sparse_zeros(stype, array.shape, array.context, array.dtype)))


def sparse_zeros(
    stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None
) -> BaseSparseNDArray:
    """Return a sparse array with nothing stored."""
    cls = STORAGE_CLASSES.get(stype, NDArray)
    if not issubclass(cls, BaseSparseNDArray):
        raise ValueError(f"storage type is {stype!r}; expected 'row_sparse' or 'csr'")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if stype == "csr" and len(shape) != 2:
        raise ValueError(f"a csr array is a matrix; the shape is {shape}")
    return cls.zeros(
        shape, ctx or current_context(), to_dtype("float32" if dtype is None else dtype)
    )


def _copy(part: Array, context: Context) -> Array:
    backend = backend_of(context)
    copy = backend.empty(part.shape, part.dtype)
    backend.copy_into(copy, part)
    return copy


def _ascend_in_rows(indptr: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> bool:
    """Tell whether each column is right of the one before it, unless that is in another row."""
    begins_row = np.isin(np.arange(1, columns.size), indptr)
    return bool(((np.diff(columns) > 0) | begins_row).all())


def _rows_of(xp: Any, indptr: Array, columns: Array) -> Array:
    """Return the row of each stored value."""
    return xp.searchsorted(indptr, xp.arange(columns.shape[0]), side="right") - 1
