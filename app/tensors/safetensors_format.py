"""safetensors bodies, read and written without copies that hold the interpreter's lock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import orjson

from app.errors.tree import Damaged, Malformed
from app.tensors.json_bodies import parse_json
from app.tensors.shapes import shape_fault

__all__ = ["read_safetensors", "safetensors_pieces"]

HostArray = npt.NDArray[Any]

_LARGEST_HEADER = 1 << 21  # of 20,000 tensors
_PREFIX = 8
_DTYPES: dict[str, npt.DTypeLike] = {
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
    **{f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    "BOOL": "?",
    "BF16": ml_dtypes.bfloat16,
}
"""The same dtypes under NumPy's names."""
_CODES = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}


def read_safetensors(body: bytes, name: str) -> dict[str, HostArray]:
    """Return the tensors of a file by name, as views of it.

    Args:
        body: the file.
        name: of the field, for errors.

    Raises:
        Damaged: it is not a safetensors file, or its tensors do not cover its data without gaps.
    """
    header, begin = _read_header(body, name)
    entries = {key: _read_entry(one, f"{name}.{key}") for key, one in header.items()}
    end = 0
    # The format forbids gaps and overlaps, with which a file could hide or multiply its contents.
    for first, last in sorted((one.first, one.last) for one in entries.values()):
        if first != end:
            raise _damaged(name, f"a tensor that begins at byte {first:,} instead of {end:,}")
        end = last
    if begin + end != len(body):
        raise _damaged(name, f"{len(body) - begin:,} bytes of data for tensors of {end:,}")
    data = np.frombuffer(body, np.uint8, offset=begin) if end else np.zeros(0, np.uint8)
    return {
        key: data[one.first : one.last].view(one.dtype).reshape(one.shape)
        for key, one in entries.items()
    }


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tensor's dtype and shape, and where its bytes begin and end."""

    dtype: np.dtype[Any]
    shape: list[int]
    first: int
    last: int


def safetensors_pieces(tensors: Mapping[str, HostArray]) -> list[bytes | HostArray]:
    """Return the parts of a safetensors file; wide elements come first, which aligns them all."""
    header: dict[str, Any] = {}
    arrays = []
    end = 0
    for name, array in sorted(tensors.items(), key=lambda one: (-one[1].itemsize, one[0])):
        native = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        begin, end = end, end + native.nbytes
        header[name] = {
            "dtype": _CODES[native.dtype],
            "shape": native.shape,
            "data_offsets": [begin, end],
        }
        arrays.append(native)
    text = orjson.dumps(header)
    text += b" " * (-len(text) % _PREFIX)  # so that the data is aligned to 8 bytes as well
    return [len(text).to_bytes(_PREFIX, "little") + text, *arrays]


def _read_header(body: bytes, name: str) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(body[:_PREFIX], "little")
    begin = _PREFIX + length
    if len(body) < _PREFIX or begin > len(body):
        raise _damaged(name, f"{len(body)} bytes that promise a header of {length:,}")
    if length > _LARGEST_HEADER:
        raise _damaged(name, f"a header of {length:,} bytes, over {_LARGEST_HEADER:,}")
    try:
        header = parse_json(body[_PREFIX:begin])
    except Malformed as error:
        raise _damaged(name, error) from None
    if not isinstance(header, dict):
        raise _damaged(name, "a header that is not an object")
    header.pop("__metadata__", None)  # texts of the writer, not a tensor
    return header, begin


def _read_entry(entry: Any, name: str) -> _Entry:
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise _damaged(name, "not an object with dtype, shape and data_offsets")
    if (code := _DTYPES.get(str(entry["dtype"]))) is None:
        raise Damaged(f"{name}.dtype", entry["dtype"], f"one of {', '.join(_DTYPES)}")
    dtype, shape, offsets = np.dtype(code), entry["shape"], entry["data_offsets"]
    fault = shape_fault(shape, dtype) if isinstance(shape, list) else "sizes"
    if fault is not None:
        raise Damaged(f"{name}.shape", shape, f"a list with {fault}")
    expected = math.prod(shape) * dtype.itemsize
    if (
        not isinstance(offsets, list)
        or [type(one) for one in offsets] != [int, int]
        or not 0 <= offsets[0] <= offsets[1]
        or offsets[1] - offsets[0] != expected
    ):
        raise Damaged(f"{name}.data_offsets", offsets, f"begin and end of {expected:,} bytes")
    return _Entry(dtype, shape, *offsets)


def _damaged(name: str, got: object) -> Damaged:
    return Damaged(name, got, "a safetensors file")
