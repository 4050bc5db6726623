"""What the two kinds of sparse arrays share. An operator given one works on its dense values."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import numpy as np

from ..backends import backend_of
from ..device import Context
from ..errors import FormatError, NotSupportedForSparseNDArray, ShapeError
from ..ops.csr import Csr
from ..ops.rows import Rows
from ..types import Array, DType, Shape, to_dtype
from .array import NDArray
from .stored import StoredArray

__all__ = ["BaseSparseNDArray"]

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
    def memory(self) -> Array | None:
        """Raw dense memory that the array keeps up to date; None if it has none."""
        return None

    @property
    def shape(self) -> Shape:
        """Shape of the whole array."""
        return self._shape

    @property
    def data(self) -> NDArray:
        """The stored values."""
        return NDArray(self._data, self._context, version=self.version)

    @property
    def nbytes(self) -> int:
        """Bytes that the array holds, indices included."""
        return super().nbytes + sum(int(part.nbytes) for part in self._auxiliary)

    @property
    def size(self) -> int:
        """Sparse arrays have no size, as in MXNet."""
        raise NotImplementedError(f"{type(self).__name__} has no size; use data.size or shape")

    def _binary(self, array_op: str, scalar_op: str, other: Any) -> NDArray:
        # For equal shapes, because only the elementwise operators have sparse results.
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
        """Return a copy of another dtype; with ``copy=False``, this array if it has that dtype."""
        dtype = to_dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        return cast(NDArray, self.copyto(type(self).zeros(self.shape, self._context, dtype)))

    def detach(self) -> NDArray:
        """Return the same memory without the computation it came from."""
        return type(self)(self._shape, self._data, self._auxiliary, self._context)

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
        """Raise MXNetError if the indices do not make an array of this shape.

        Args:
            full_check: check the values of the indices as well as their number.
        """
        raise NotImplementedError

    def _copy_parts(self, other: BaseSparseNDArray) -> None:
        backend = backend_of(self._context)
        values = backend.empty(other._data.shape, np.dtype(self.dtype))
        backend.copy_into(values, other._data)
        self._hold(values, tuple(_copy(part, self._context) for part in other._auxiliary))

    def _hold(self, values: Array, auxiliary: tuple[Array, ...]) -> None:
        """Replace the stored values and index arrays by these, without copying."""
        self._data, self._auxiliary = values, auxiliary

    def container(self) -> Rows | Csr:
        """Return what is stored as operators take it; nothing is copied."""
        raise NotImplementedError

    def take(self, container: Rows | Csr) -> None:
        """Replace what is stored by an operator's result, sharing its arrays."""
        raise NotImplementedError

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
        raise NotImplementedError

    def clear(self) -> None:
        """Make all elements zero, without storing any."""
        type(self).zeros(self.shape, self._context, np.dtype(self.dtype)).copyto(self)

    def _binary_inplace(self, array_op: str, scalar_op: str, other: Any) -> NDArray:
        self._binary(array_op, scalar_op, other).copyto(self)
        return self


def _copy(part: Array, context: Context) -> Array:
    backend = backend_of(context)
    copy = backend.empty(part.shape, part.dtype)
    backend.copy_into(copy, part)
    return copy
