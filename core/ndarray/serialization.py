"""``.params`` files: lists of arrays, with or without names (``nd.save`` and ``nd.load``).

A file is u64 0x112, u64 0, u64 n, n arrays (``core.ndarray.stored``), u64 k (0 or n), k names, each
u64 length and UTF-8.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, TypeVar

from ..device import Context
from ..errors import MXNetError
from .array import NDArray
from .files import atomic_write
from .handle import STORAGE_CLASSES
from .np_shape import is_np_shape
from .stored import Source, StoredArray, read_array, write_array

__all__ = ["dumps", "load", "load_frombuffer", "read_entries", "read_list", "save", "write_list"]

T = TypeVar("T")

LIST_MAGIC = 0x112

ArrayList = list[NDArray]
ArrayDict = dict[str, NDArray]


def save(fname: str | os.PathLike[str], data: Any) -> None:
    """Write arrays to a file, byte for byte as MXNet 1.9.1 writes them.

    The file appears under its name only when it is complete.

    Args:
        fname: path of the file.
        data: an NDArray, a list of them, or a dict of them by name; dense or sparse.

    Raises:
        TypeError: a name or array of another type; ValueError: another kind of collection.
        MXNetError: the file cannot be written.
    """
    names, arrays = _names_and_arrays(data)
    try:
        with atomic_write(fname) as stream:
            write_list(stream, [array.stored() for array in arrays], names)
    except OSError as error:
        raise MXNetError(f"cannot write {os.fspath(fname)!r}: {error}") from error


def dumps(data: Any) -> bytes:
    """Return the bytes that ``save`` would write."""
    names, arrays = _names_and_arrays(data)
    out = io.BytesIO()
    write_list(out, [array.stored() for array in arrays], names)
    return out.getvalue()


def load(fname: str | os.PathLike[str]) -> ArrayList | ArrayDict:
    """Read the arrays of a file, written by any version of MXNet.

    Returns:
        a dict by name if the file has names, else a list; all on ``cpu(0)``, as in MXNet.

    Raises:
        FormatError: truncated, damaged or no such file format; nothing is allocated for more than
            the file holds.
        MXNetError: the file cannot be read.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError(f"fname is a {type(fname).__name__}; expected the path of a file")
    try:
        with open(fname, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stored, names = read_list(Source(stream, size, os.fspath(fname)))
    except OSError as error:
        raise MXNetError(f"cannot read {os.fspath(fname)!r}: {error}") from error
    return _collect(stored, names)


def load_frombuffer(buf: bytes) -> ArrayList | ArrayDict:
    """Read the arrays of a file's contents; see ``load``."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError(f"buf is a {type(buf).__name__}; expected bytes")
    return _collect(*read_list(Source(io.BytesIO(buf), len(buf), "buffer")))


def read_list(source: Source) -> tuple[list[StoredArray], list[str]]:
    """Read a whole list: arrays and names (none, or one for each).

    Raises:
        FormatError: names the part, what was got and expected.
    """
    return read_entries(source, read_array)


def read_entries(source: Source, read: Callable[[Source], T]) -> tuple[list[T], list[str]]:
    """Read a whole list, each array by a function; see ``read_list``."""
    magic, _, count = source.unpack("QQQ", "header")
    if magic != LIST_MAGIC:
        raise source.error(
            f"starts with {magic:#x}, expected {LIST_MAGIC:#x}; is it a .params file?"
        )
    arrays = []
    for index in range(count):
        source.part = f"array {index} of {count}"
        arrays.append(read(source))
    source.part = "names"
    (name_count,) = source.unpack("Q", "count")
    if name_count not in (0, count):
        raise source.error(f"there are {name_count}, expected 0 or {count}")
    names = []
    for index in range(name_count):
        source.part = f"name {index} of {count}"
        (length,) = source.unpack("Q", "length")
        try:
            names.append(source.take(length, "text").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise source.error(f"not UTF-8: {error}") from None
    return arrays, names


def write_list(stream: BinaryIO, arrays: Sequence[StoredArray], names: Sequence[str]) -> None:
    """Write a whole list as V2; in np-shape mode, or if an array is a scalar, all as V3."""
    np_shape = is_np_shape() or any(array.shape == () for array in arrays)
    stream.write(struct.pack("<QQQ", LIST_MAGIC, 0, len(arrays)))
    for array in arrays:
        write_array(stream, array, np_shape=np_shape)
    stream.write(struct.pack("<Q", len(names)))
    for name in names:
        text = name.encode("utf-8")
        stream.write(struct.pack("<Q", len(text)) + text)


def _collect(stored: list[StoredArray], names: list[str]) -> ArrayList | ArrayDict:
    arrays = [_from_stored(array) for array in stored]
    return dict(zip(names, arrays, strict=True)) if names else arrays


def _from_stored(stored: StoredArray) -> NDArray:
    array: NDArray = STORAGE_CLASSES[stored.stype]()
    array.restore(stored, Context("cpu", 0))
    return array


def _names_and_arrays(data: Any) -> tuple[list[str], list[NDArray]]:
    if isinstance(data, NDArray):
        return [], [data]
    if isinstance(data, dict):
        names, arrays = list(data), list(data.values())
    elif isinstance(data, list):
        names, arrays = [], data
    else:
        raise ValueError(
            f"data is a {type(data).__name__}; expected an NDArray, a dict of str to NDArray or a "
            "list of NDArrays"
        )
    if not all(isinstance(name, str) for name in names):
        raise TypeError("save only accept dict str->NDArray or list of NDArray; a key is no str")
    for array in arrays:
        if not isinstance(array, NDArray):
            raise TypeError(
                "save only accept dict str->NDArray or list of NDArray; "
                f"got a {type(array).__name__}"
            )
    return names, arrays
