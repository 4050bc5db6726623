"""Tensors in JSON: nested lists, or an object with shape, dtype and flat data."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from app.errors.tree import FieldError, HostError, Invalid
from app.tensors.shapes import MOST_AXES, shape_fault

__all__ = ["HostArray", "is_uneven", "read_tensor"]

DTYPE_NAMES = (
    *("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16"),
    *("uint16", "uint32", "uint64", "bfloat16"),
)
"""The dtypes of tensors: those that the engine supports."""

HostArray = npt.NDArray[Any]

_UNEVEN = "lists of differing lengths"
_NUMBERS = frozenset({int, float, bool})


def is_uneven(error: Exception) -> bool:
    """Return whether lists were refused only because they differ in length."""
    if isinstance(error, HostError):  # of a decoder process
        return any(one["got"] == _UNEVEN for one in error.errors)
    return isinstance(error, Invalid) and error.errors[0].got == _UNEVEN


def read_tensor(value: Any, field: str, dtype: str) -> HostArray:
    """Return the array in nested lists of numbers, or in ``{"shape", "dtype", "data"}``.

    Args:
        value: parsed JSON.
        field: its path in the body, for errors.
        dtype: of plain lists, and of objects that name none.
    """
    if isinstance(value, dict):
        return _read_object(value, field, dtype)
    if isinstance(value, (int, float, bool)):
        value = [value]
    if not isinstance(value, list):
        raise Invalid(field, value, "nested lists of numbers, or {shape, dtype, data}")
    shape, numbers = _flatten(value, field)
    return _to_array(numbers, field, dtype).reshape(shape)


def _read_object(value: dict[str, Any], field: str, dtype: str) -> HostArray:
    unknown = sorted(set(value) - {"shape", "dtype", "data"})
    if unknown:
        raise Invalid(f"{field}.{unknown[0]}", value[unknown[0]], "no field of this name")
    if "data" not in value:
        raise Invalid.from_errors([FieldError(f"{field}.data", "nothing", "a list of numbers")])
    named = value.get("dtype", dtype)
    if named not in DTYPE_NAMES:
        raise Invalid(f"{field}.dtype", named, f"one of {', '.join(DTYPE_NAMES)}")
    data = value["data"]
    nested, numbers = _flatten(data if isinstance(data, list) else [data], f"{field}.data")
    array = _to_array(numbers, f"{field}.data", named)
    if "shape" not in value:
        return array.reshape(nested)
    shape = value["shape"]
    if not isinstance(shape, list):
        raise Invalid(f"{field}.shape", shape, "a list of sizes of at least 0")
    if (expected := shape_fault(shape, array.dtype)) is not None:
        raise Invalid(f"{field}.shape", shape, f"a list with {expected}")
    if math.prod(shape) != array.size:
        raise Invalid(f"{field}.shape", shape, f"sizes whose product is the {array.size} values")
    return array.reshape(shape)


def _flatten(data: list[Any], field: str) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of nested lists, and their numbers in one flat list.

    Every element's type is checked before NumPy sees it: given text, NumPy would make an array in
    which each element is as wide as the longest.
    """
    shape = [len(data)]
    # A level at a time, which costs one pass over each: recursion would cost a call for each row.
    while data and isinstance(data[0], list):
        if len(shape) == MOST_AXES:
            raise Invalid(
                field, f"lists nested more than {MOST_AXES} deep", f"at most {MOST_AXES} axes"
            )
        size = len(data[0])
        if not all(isinstance(row, list) and len(row) == size for row in data):
            raise _uneven(data, field)
        shape.append(size)
        data = list(chain.from_iterable(data))
    # Exact types, in C: this visits every number of the body.
    if not _NUMBERS.issuperset(map(type, data)):
        raise _uneven(data, field)
    return tuple(shape), data


def _uneven(data: list[Any], field: str) -> Invalid:
    for item in data:
        if not isinstance(item, (int, float, list)):
            return Invalid(field, item, "numbers")
    return Invalid(field, _UNEVEN, "lists of equal length")


def _to_array(numbers: list[Any], field: str, dtype: str) -> HostArray:
    if not numbers:
        return np.zeros(0, dtype)
    target = np.dtype(dtype)
    array = np.array(numbers)
    if array.dtype.kind == "f" and target.kind in "iu" and float not in set(map(type, numbers)):
        array = np.array(numbers, dtype=object)  # NumPy makes 0 and 2**63 floats
    if target.kind in "iu":
        if array.dtype.kind == "f":
            raise Invalid(field, "fractions", f"whole numbers for {dtype}")
        bounds = np.iinfo(target)
        if array.dtype.kind != "b" and (array.min() < bounds.min or array.max() > bounds.max):
            raise Invalid(field, "numbers out of range", f"{bounds.min} to {bounds.max} ({dtype})")
    with np.errstate(over="ignore"):  # too large for float16 or float32: infinite, as in NumPy
        return array.astype(target, copy=False)
