"""Shapes and dtypes in MXNet's conventions.

A shape is a tuple of ints in which 0 stands for an unknown dimension; an unknown rank is ``None``.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, TypeGuard, overload

import ml_dtypes
import numpy as np

from .errors import ShapeError, TypeInferenceError

__all__ = [
    "DTYPE_CODES",
    "DTYPE_NAMES",
    "MAX_RANK",
    "NO_ELEMENTS",
    "Array",
    "DType",
    "Shape",
    "broadcast_shapes",
    "dtype_code",
    "dtype_from_code",
    "is_floating",
    "is_half",
    "is_known",
    "largest_whole",
    "lowest",
    "merge_dtypes",
    "merge_shapes",
    "normalize_axis",
    "shape_size",
    "to_dtype",
    "with_known_zeros",
    "with_plain_zeros",
]

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = np.dtype[Any]
Array: TypeAlias = Any
"""A ``numpy.ndarray`` or ``cupy.ndarray``, depending on the backend."""

MAX_RANK = 32
"""Maximum number of dimensions (NumPy's limit before 2.0)."""

DTYPE_NAMES = (
    "float32",
    "float64",
    "float16",
    "uint8",
    "int32",
    "int8",
    "int64",
    "bool",
    "int16",
    "uint16",
    "uint32",
    "uint64",
    "bfloat16",
)
"""MXNet's dtype codes are the positions in this tuple; bfloat16 is the dtype of ml_dtypes."""

_HALF = frozenset({np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)})

DTYPE_CODES = {name: code for code, name in enumerate(DTYPE_NAMES)}


def to_dtype(value: Any) -> DType:
    """Return the NumPy dtype for a name, code, type or dtype; raise an error if MXNet does not have
    it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return dtype_from_code(value)
    dtype: DType | None
    try:
        dtype = np.dtype(value)
    except TypeError:
        dtype = None
    if dtype is not None and dtype.names == ("bfloat16",):
        dtype = np.dtype(ml_dtypes.bfloat16)  # MXNet represents bfloat16 by a structured dtype
    if dtype is None or dtype.name not in DTYPE_CODES:
        raise TypeInferenceError(
            f"dtype {value!r} is not one MXNet knows; use one of {', '.join(DTYPE_NAMES)}"
        )
    return dtype


def dtype_code(dtype: Any) -> int:
    """Return MXNet's code of a dtype."""
    return DTYPE_CODES[to_dtype(dtype).name]


def dtype_from_code(code: int) -> DType:
    """Return the dtype for MXNet's code."""
    if not 0 <= code < len(DTYPE_NAMES):
        raise TypeInferenceError(f"dtype code {code} is unknown; 0 to {len(DTYPE_NAMES) - 1} are")
    return np.dtype(DTYPE_NAMES[code])


def is_half(dtype: DType) -> bool:
    """Return whether a dtype is float16 or bfloat16."""
    return dtype in _HALF


def is_floating(dtype: DType) -> bool:
    """Return whether a dtype is floating point, including bfloat16."""
    return dtype.kind == "f" or dtype in _HALF


def lowest(dtype: DType) -> float:
    """Return the smallest finite number of a floating point dtype."""
    return float(ml_dtypes.finfo(dtype).min)  # type: ignore[no-untyped-call]


class _NoElements(int):
    """The length of an axis without elements, for inference.

    In inference, a plain 0 means an unknown length. This number equals only itself and is truthy.
    """

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NoElements)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, _NoElements)

    __hash__ = int.__hash__


NO_ELEMENTS: Final[int] = _NoElements(0)
"""A length of 0 that is known to be 0."""


def largest_whole(dtype: DType) -> int:
    """Return the largest n such that a dtype represents all integers up to n."""
    if not is_floating(dtype):
        return np.iinfo(dtype).max
    bits = int(ml_dtypes.finfo(dtype).nmant) + 1  # type: ignore[no-untyped-call]
    return 1 << bits


def with_known_zeros(shape: Shape) -> Shape:
    """Return the shape of an existing array for inference, in which lengths of 0 are known."""
    return tuple(dim or NO_ELEMENTS for dim in shape)


def with_plain_zeros(shape: Shape) -> Shape:
    """Return a shape with plain zeros, whether its lengths of 0 were known or not."""
    return tuple(map(int, shape))


def is_known(shape: Shape | None) -> TypeGuard[Shape]:
    """Return whether the rank and every dimension are known."""
    return shape is not None and 0 not in shape


def shape_size(shape: Shape) -> int:
    """Return the number of elements."""
    size = 1
    for dim in shape:
        size *= dim
    return size


@overload
def merge_shapes(a: Shape, b: Shape | None) -> Shape: ...
@overload
def merge_shapes(a: Shape | None, b: Shape) -> Shape: ...
@overload
def merge_shapes(a: Shape | None, b: Shape | None) -> Shape | None: ...
def merge_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    """Merge two partially known shapes.

    Raises:
        ShapeError: they contradict each other.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x and y and x != y for x, y in zip(a, b, strict=True)):
        raise ShapeError(f"shape {a} contradicts shape {b}")
    return tuple(x or y for x, y in zip(a, b, strict=True))


@overload
def merge_dtypes(a: DType, b: DType | None) -> DType: ...
@overload
def merge_dtypes(a: DType | None, b: DType) -> DType: ...
@overload
def merge_dtypes(a: DType | None, b: DType | None) -> DType | None: ...
def merge_dtypes(a: DType | None, b: DType | None) -> DType | None:
    """Merge two possibly unknown dtypes; raise TypeInferenceError on a conflict."""
    if a is None or b is None:
        return b if a is None else a
    if a != b:
        raise TypeInferenceError(f"dtype {a} contradicts dtype {b}")
    return a


def broadcast_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the NumPy broadcast of two shapes; None if either is not fully known."""
    if not is_known(a) or not is_known(b):
        return None
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise ShapeError(f"shapes {a} and {b} do not broadcast") from None


def normalize_axis(axis: int, ndim: int) -> int:
    """Return a non-negative axis; raise ShapeError when it is out of range."""
    if not -ndim <= axis < ndim:
        raise ShapeError(f"axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim
