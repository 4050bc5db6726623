"""What every array has: raw values, a device, a version, and the computation it came from.

The tape, indexing and reshaping are written in terms of this class; ``NDArray`` is built on them.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from ..backends.kernels import Version
from ..device import Context
from ..errors import MXNetError
from ..types import Array, Shape, shape_size
from .tape import Origin

__all__ = ["STORAGE_CLASSES", "A", "Handle"]

A = TypeVar("A", bound="Handle[Any]")
"""The class of arrays that methods return."""

STORAGE_CLASSES: dict[str, type[Any]] = {}
"""The class of arrays of each storage type; each is entered where it is defined."""


class Handle(Generic[A]):
    """Raw values on a device.

    Attributes:
        writable: whether the in-place operators and assignments are allowed.
        version: is bumped whenever the array may be written to; see ``NDArray``.
    """

    __slots__ = ("__weakref__", "_context", "_data", "_origin", "version", "writable")

    def __init__(
        self,
        data: Array = None,
        ctx: Context | None = None,
        writable: bool = True,
        *,
        version: Version | None = None,
    ) -> None:
        self._data = data
        self._context = ctx if ctx is not None else Context("cpu", 0)
        self._origin: Origin | None = None
        self.writable = writable
        self.version = version

    @property
    def shape(self) -> Shape:
        """Length of each axis."""
        return cast(Shape, self._data.shape)

    @property
    def dtype(self) -> Any:
        """The NumPy scalar type of the elements (``numpy.float32``)."""
        return self._data.dtype.type

    @property
    def nbytes(self) -> int:
        """Bytes that the array holds."""
        return 0 if self._data is None else int(self._data.nbytes)

    @property
    def size(self) -> int:
        """Number of elements."""
        return shape_size(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def context(self) -> Context:
        """The device of the array."""
        return self._context

    ctx = context

    @property
    def stype(self) -> str:
        """Storage type: ``"default"``, ``"row_sparse"`` or ``"csr"``."""
        return "default"

    def dense(self) -> Array:
        """Return the raw values as operators read them; a sparse array makes a dense copy."""
        if self._data is None:
            raise MXNetError("the array holds nothing (it was made by NDArray(None))")
        return self._data

    def dense_for_write(self) -> Array:
        """Return the raw values for writing now, and mark the array as changed.

        Call this again for every later write, so that executors notice it too.
        """
        if self.version is not None:
            self.version.bump()
        return self._data

    def check_writable(self) -> None:
        """Raise ValueError if the memory is shared read-only by another library."""
        if not self.writable:
            raise ValueError("trying to write to a readonly NDArray; copy() it first")

    # -- what the class of arrays defines -----------------------------------------------------

    def wrap(self, raw: Array, context: Context | None = None) -> A:
        """Return a handle on another raw array, by default of this array's device."""
        raise NotImplementedError

    def assign_dense(self, raw: Array) -> None:
        """Write raw values of this shape, of any device and dtype, over the array."""
        raise NotImplementedError

    def copyto(self, other: Any) -> Any:
        """Copy into an array of the same shape, or to a new array on a device."""
        raise NotImplementedError

    def astype(self, dtype: Any, copy: bool = True) -> A:
        """Return a copy of another dtype; with ``copy=False`` this array where it has it."""
        raise NotImplementedError

    def as_in_context(self, context: Context) -> A:
        """Return this array where it is on the device, else a copy there."""
        raise NotImplementedError

    def tostype(self, stype: str) -> A:
        """Return a copy in another storage type."""
        raise NotImplementedError

    def reshape(self, *shape: Any, **kwargs: Any) -> A:
        """Return the same memory under another shape."""
        raise NotImplementedError

    def take_gradient(self, gradient: Any, *, add: bool) -> None:
        """Write a gradient into this buffer, or add it."""
        raise NotImplementedError

    def __add__(self, other: Any) -> A:
        raise NotImplementedError

    @staticmethod
    def _call_operator(name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the function of an operator."""
        raise NotImplementedError
