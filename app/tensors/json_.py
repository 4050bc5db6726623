"""Tensors in JSON: nested lists, or an object with shape, dtype and flat data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from app.errors import FieldError, Invalid, Malformed

__all__ = ["parse_json", "read_tensor", "tensor_to_plain"]

DTYPE_NAMES = (
    *("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16"),
    *("uint16", "uint32", "uint64", "bfloat16"),
)
"""The dtypes of tensors: those of the engine."""

HostArray = npt.NDArray[Any]


def parse_json(body: bytes) -> Any:
    """Parse a JSON body; raise Malformed with the position of the fault."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is no JSON: {error}") from None


def read_tensor(value: Any, field: str, dtype: str = "float32") -> HostArray:
    """Return the array of nested lists of numbers, or of ``{"shape", "dtype", "data"}``.

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
    return _to_array(value, field, dtype)


def tensor_to_plain(array: HostArray) -> dict[str, Any]:
    """Return the JSON form of an array; NaN and infinity, which JSON lacks, become null."""
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": array.tolist()}


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
    array = _to_array(data if isinstance(data, list) else [data], f"{field}.data", named)
    if "shape" not in value:
        return array
    shape = value["shape"]
    if not isinstance(shape, list) or any(type(d) is not int or d < 0 for d in shape):
        raise Invalid(f"{field}.shape", shape, "a list of sizes of at least 0")
    if math.prod(shape) != array.size:
        raise Invalid(f"{field}.shape", shape, f"sizes whose product is the {array.size} values")
    return array.reshape(shape)


def _to_array(data: list[Any], field: str, dtype: str) -> HostArray:
    try:
        array = np.array(data)
    except ValueError:
        raise Invalid(field, "lists of differing lengths", "lists of equal length") from None
    if array.size == 0:
        return array.astype(dtype)
    if array.dtype.kind not in "biuf":
        raise Invalid(field, _first_stranger(data), "numbers")
    if array.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        array = _as_integers(data, array)
    return _cast(array, field, dtype)


def _as_integers(data: list[Any], array: HostArray) -> HostArray:
    """Return integers of which NumPy made floats, as it does of 0 beside 2**63, as they were."""
    exact = np.array(data, dtype=object)
    return exact if all(type(item) is int for item in exact.flat) else array


def _cast(array: HostArray, field: str, dtype: str) -> HostArray:
    target = np.dtype(dtype)
    if target.kind in "iu":
        if array.dtype.kind == "f":
            raise Invalid(field, "fractions", f"whole numbers for {dtype}")
        bounds = np.iinfo(target)
        if array.dtype.kind != "b" and (array.min() < bounds.min or array.max() > bounds.max):
            raise Invalid(field, "numbers out of range", f"{bounds.min} to {bounds.max} ({dtype})")
    with np.errstate(over="ignore"):
        return array.astype(target)


def _first_stranger(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    for item in data:
        found = _first_stranger(item)
        if not isinstance(found, (int, float)):
            return found
    return 0
