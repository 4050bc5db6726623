"""An array as MXNet's files hold it, and its bytes in every version of the format.

============ =============== =====================================================================
version      first u32       body
============ =============== =====================================================================
V0 (<=0.9.5) number of axes  u32 lengths; context; dtype; elements
V1 (0.11)    ``0xF993FAC8``  shape; context; dtype; elements
V2 (to 1.9)  ``0xF993FAC9``  storage type; [storage shape]; shape; context; dtype;
                             [dtype and shape of each auxiliary array]; elements; [auxiliary]
V3           ``0xF993FACA``  as V2, dense, and a shape without axes means a scalar
============ =============== =====================================================================

A shape is i32 count and i64 lengths, a context i32 type and i32 number; all is little-endian. The
format is read off MXNet 1.9.1's ``src/ndarray/ndarray.cc``.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ..device import Context
from ..errors import FormatError
from ..types import DTYPE_NAMES, Shape, dtype_code, shape_size

__all__ = [
    "Source",
    "StoredArray",
    "decode_array",
    "encode_array",
    "host_context",
    "read_array",
    "write_array",
]

V1_MAGIC, V2_MAGIC, V3_MAGIC = 0xF993FAC8, 0xF993FAC9, 0xF993FACA

STORAGE_TYPES = ("default", "row_sparse", "csr")

AUXILIARY = {"default": 0, "row_sparse": 1, "csr": 2}
"""How many auxiliary arrays a storage type has: row indices; row pointers and column indices."""

MAX_AXES = 32  # NumPy's limit before version 2
MAX_SIZE = 2**59
"""The most elements: NumPy refuses 2**63 bytes, even if a length of 0 leaves no elements."""

_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class StoredArray:
    """An array as a file holds it.

    Attributes:
        stype: ``"default"``, ``"row_sparse"`` or ``"csr"``.
        shape: shape of the array (not of what is stored).
        data: the elements stored, on the host.
        auxiliary: int64 arrays: row indices of row_sparse, row pointers and column indices of csr.
        context: device written in the file; readers may ignore it, as MXNet does.
    """

    stype: str
    shape: Shape
    data: np.ndarray[Any, Any]
    auxiliary: tuple[np.ndarray[Any, Any], ...] = ()
    context: Context = Context("cpu", 0)  # noqa: RUF009 (a Context is never changed)


def host_context(context: Context) -> Context:
    """Return the context itself if it is in host memory, else ``cpu(0)``."""
    return Context("cpu", 0) if context.device_type == "gpu" else context


class Source:
    """Bytes to read from, of known length; nothing is allocated that the rest could not fill."""

    def __init__(self, stream: BinaryIO, size: int, name: str) -> None:
        self._stream = stream
        self._left = size
        self.name = name
        self.part = "header"

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self._left

    def error(self, problem: str) -> FormatError:
        """Return an error that names the file and the part being read."""
        return FormatError(f"{self.name}: {self.part}: {problem}")

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes."""
        self._need(size, what)
        data = self._stream.read(size)
        if len(data) != size:
            raise self.error(f"{what}: the file ended while it was read")
        return data

    def unpack(self, layout: str, what: str) -> tuple[Any, ...]:
        """Return the next numbers, laid out as for ``struct``."""
        layout = "<" + layout
        return struct.unpack(layout, self.take(struct.calcsize(layout), what))

    def array(self, shape: Shape, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
        """Return the next elements."""
        self._need(shape_size(shape) * dtype.itemsize, what)
        array = np.empty(shape, dtype)
        if array.size:
            raw = array.reshape(-1).view(np.uint8).data
            if self._stream.readinto(raw) != raw.nbytes:  # type: ignore[attr-defined]
                raise self.error(f"{what}: the file ended while it was read")
        return array

    def _need(self, size: int, what: str) -> None:
        if size > self._left:
            raise self.error(f"{what} takes {size} bytes, {self._left} are left in the file")
        self._left -= size


def decode_array(data: bytes) -> StoredArray:
    """Return the array that one encoded array holds; raise FormatError if it is damaged."""
    source = Source(io.BytesIO(data), len(data), "pickled array")
    source.part = "array"
    return read_array(source)


def encode_array(array: StoredArray) -> bytes:
    """Return an array's bytes: V2, or V3 for a scalar, which V2 cannot hold."""
    out = io.BytesIO()
    write_array(out, array, np_shape=array.shape == ())
    return out.getvalue()


def write_array(out: BinaryIO, array: StoredArray, *, np_shape: bool) -> None:
    """Write one array as V2, or as V3 with ``np_shape``."""
    if np_shape and array.stype != "default":
        raise FormatError(f"a {array.stype} array cannot be written in the np-shape format (V3)")
    magic = V3_MAGIC if np_shape else V2_MAGIC
    out.write(struct.pack("<Ii", magic, STORAGE_TYPES.index(array.stype)))
    if array.stype != "default":
        _write_shape(out, array.data.shape)
    _write_shape(out, array.shape)
    context = array.context
    out.write(struct.pack("<ii", context.device_typeid, context.device_id))
    out.write(struct.pack("<i", dtype_code(array.data.dtype)))
    for auxiliary in array.auxiliary:
        out.write(struct.pack("<i", dtype_code(auxiliary.dtype)))
        _write_shape(out, auxiliary.shape)
    for elements in (array.data, *array.auxiliary):
        out.write(np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data)


def read_array(source: Source) -> StoredArray:
    """Read one array of any version.

    Raises:
        FormatError: truncated or contradictory; nothing has been allocated for it.
    """
    (magic,) = source.unpack("I", "version")
    if magic in (V2_MAGIC, V3_MAGIC):
        return _read_current(source, np_shape=magic == V3_MAGIC)
    if magic == V1_MAGIC:
        shape = _read_shape(source, "shape")
    else:
        # V0 has no magic number: the word is the number of axes.
        shape = _read_lengths(source, magic, "I", "version or shape")
    if not shape:
        raise source.error("the array holds nothing (no axes)")
    context, code = _read_context(source), _read_code(source)
    return StoredArray("default", shape, _read_elements(source, shape, code), (), context)


def _read_current(source: Source, *, np_shape: bool) -> StoredArray:
    (kind,) = source.unpack("i", "storage type")
    if not 0 <= kind < len(STORAGE_TYPES) or (np_shape and kind != 0):
        raise source.error(f"storage type is {kind}; expected 0 (dense), 1 (row_sparse) or 2 (csr)")
    stype = STORAGE_TYPES[kind]
    stored_shape = _read_shape(source, "storage shape") if stype != "default" else None
    shape = _read_shape(source, "shape")
    if not shape and not np_shape:
        raise source.error("the array holds nothing (no axes)")
    context, code = _read_context(source), _read_code(source)
    layouts = []
    for index in range(AUXILIARY[stype]):
        auxiliary_code = _read_code(source)
        if auxiliary_code != dtype_code(_INT64):
            raise source.error(f"auxiliary array {index} has dtype code {auxiliary_code}, not 6")
        layouts.append(_read_shape(source, f"shape of auxiliary array {index}"))
    if stored_shape is not None:
        _check_layout(source, stype, shape, stored_shape, layouts)
    data = _read_elements(source, shape if stored_shape is None else stored_shape, code)
    auxiliary = tuple(
        source.array(layout, _INT64, f"auxiliary array {index}")
        for index, layout in enumerate(layouts)
    )
    if stype != "default":
        _check_indices(source, stype, shape, auxiliary)
    return StoredArray(stype, shape, data, auxiliary, context)


def _check_layout(
    source: Source, stype: str, shape: Shape, stored: Shape, auxiliary: Sequence[Shape]
) -> None:
    """Check that the shapes of a sparse array's parts fit together."""
    count = stored[0] if stored else 0
    if stype == "row_sparse":
        fits = bool(stored) and stored[1:] == shape[1:] and auxiliary[0] == (count,)
    else:
        fits = len(shape) == 2 and len(stored) == 1
        fits = fits and list(auxiliary) == [(shape[0] + 1,), (count,)]
    if not fits:
        raise source.error(
            f"a {stype} array of shape {shape} cannot have data of shape {stored} and auxiliary "
            f"arrays of shapes {list(auxiliary)}"
        )


def _check_indices(
    source: Source, stype: str, shape: Shape, auxiliary: Sequence[np.ndarray[Any, Any]]
) -> None:
    """Check that a sparse array's indices stay inside it and are in order."""
    *pointers, indices = auxiliary
    size = shape[0] if stype == "row_sparse" else shape[1]
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        raise source.error(
            f"an index is {indices.min()} to {indices.max()}, expected 0 to < {size}"
        )
    if stype == "row_sparse" and (np.diff(indices) <= 0).any():
        raise source.error("the row indices of a row_sparse array do not ascend")
    for pointer in pointers:
        ends = pointer[0] == 0 and pointer[-1] == indices.size
        if not ends or (np.diff(pointer) < 0).any():
            raise source.error(
                f"the row pointers of a csr array do not go from 0 to {indices.size}"
            )


def _read_elements(source: Source, shape: Shape, code: int) -> np.ndarray[Any, Any]:
    if not 0 <= code < len(DTYPE_NAMES):
        raise source.error(f"dtype code is {code}; expected 0 to {len(DTYPE_NAMES) - 1}")
    dtype = np.dtype(DTYPE_NAMES[code])
    if dtype == np.bool_:
        # Converted, because a bool whose byte is neither 0 nor 1 gives wrong results in NumPy.
        return source.array(shape, np.dtype(np.uint8), "elements").astype(np.bool_)
    return source.array(shape, dtype, "elements")


def _read_shape(source: Source, what: str) -> Shape:
    (count,) = source.unpack("i", what)
    return _read_lengths(source, count, "q", what)


def _read_lengths(source: Source, count: int, kind: str, what: str) -> Shape:
    if not 0 <= count <= MAX_AXES:
        raise source.error(f"{what}: number of axes is {count}; expected 0 to {MAX_AXES}")
    shape: Shape = source.unpack(f"{count}{kind}", what)
    if any(dim < 0 for dim in shape):
        raise source.error(f"{what} is {shape}; lengths cannot be negative")
    if shape_size(tuple(dim for dim in shape if dim)) > MAX_SIZE:
        raise source.error(f"{what} is {shape}, which is too large for any array")
    return shape


def _write_shape(out: BinaryIO, shape: Shape) -> None:
    out.write(struct.pack(f"<i{len(shape)}q", len(shape), *shape))


def _read_context(source: Source) -> Context:
    kind, number = source.unpack("ii", "context")
    if kind not in Context.devtype2str or number < 0:
        raise source.error(f"context is ({kind}, {number}); expected a type of 1, 2, 3 or 5")
    return Context(Context.devtype2str[kind], number)


def _read_code(source: Source) -> int:
    (code,) = source.unpack("i", "dtype")
    return int(code)
