"""What the functions below ``NDArray`` ask of an array: raw values, a device, a version, an origin.

The tape, indexing, reshaping and arithmetic are functions of a ``Handle``; ``NDArray`` is the class
that has all of it, and takes most of these functions as its methods.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, TypeVar

from ..device import Context
from ..kernels.kernel import Version
from ..types import Array, Shape
from .tape import Origin

__all__ = ["STORAGE_CLASSES", "A", "Handle", "is_array"]

A = TypeVar("A", bound="Handle[Any]")
"""The class of arrays that methods return."""

A_co = TypeVar("A_co", bound="Handle[Any]", covariant=True)

STORAGE_CLASSES: dict[str, type[Any]] = {}
"""The class of arrays of each storage type. The modules that define them, which import this one,
enter them here."""


def is_array(value: object) -> TypeGuard[Handle[Any]]:
    """Return whether a value is an array of any storage type."""
    return isinstance(value, STORAGE_CLASSES["default"])


class Handle(Protocol[A_co]):
    """Raw values on a device; see ``NDArray`` for what each name means."""

    _data: Array
    _context: Context
    _origin: Origin | None
    writable: bool
    version: Version | None

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def size(self) -> int: ...

    @property
    def ndim(self) -> int: ...

    @property
    def context(self) -> Context: ...

    @property
    def stype(self) -> str: ...

    def dense(self) -> Array: ...

    def dense_for_write(self) -> Array: ...

    def check_writable(self) -> None: ...

    def wrap(self, raw: Array, context: Context | None = None) -> A_co: ...

    def assign_dense(self, raw: Array) -> None: ...

    def copyto(self, other: Any) -> Any: ...

    def astype(self, dtype: Any, copy: bool = True) -> A_co: ...

    def as_in_context(self, context: Context) -> A_co: ...

    def tostype(self, stype: str) -> A_co: ...

    def reshape(self, *shape: Any, **kwargs: Any) -> A_co: ...

    def take_gradient(self, gradient: Any, *, add: bool) -> None: ...

    def __add__(self, other: Any) -> A_co: ...

    def _binary(self, array_op: str, scalar_op: str, other: Any) -> A_co: ...

    def _binary_inplace(self, array_op: str, scalar_op: str, other: Any) -> A_co: ...

    @staticmethod
    def _call_operator(name: str, *args: Any, **kwargs: Any) -> Any: ...
