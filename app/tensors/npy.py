"""NumPy's npy and npz files, read without trust.

Nothing is unpickled. A header that promises more data than follows is refused before anything is
allocated.
"""

from __future__ import annotations

import ast
import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from app.errors.tree import Damaged, Invalid, TooLarge
from app.tensors.shapes import shape_fault
from app.tensors.writing import Buffer, as_octets, join
from app.tensors.zip_archives import open_zip

__all__ = [
    "AS_FLAT",
    "NpyHeader",
    "npy_pieces",
    "npz_pieces",
    "read_npy",
    "read_npy_header",
    "read_npz",
    "write_npy",
    "write_npz",
]

HostArray = npt.NDArray[Any]

_LARGEST_HEADER = 10_000  # NumPy's own limit for headers that it has to evaluate
_MAGIC = b"\x93NUMPY"
_LARGEST_START = len(_MAGIC) + 6 + _LARGEST_HEADER
_LENGTHS = {b"\x01\x00": "<H", b"\x02\x00": "<I"}
_PYTHON2_LONG = re.compile(r"(?<=[0-9])L")  # Python 2 wrote shapes as (3L, 4L)
_KINDS = "biuf"
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_PIECE_BYTES = 1 << 20
_ZIP64_BYTES = 1 << 30  # entries over 2 GiB need it, and zipfile must know before it writes one
_EXPECTED = "an npy array of numbers or booleans"


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """The type, shape and header length of an npy array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    header_bytes: int

    @property
    def data_bytes(self) -> int:
        """Size of the elements in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(stream: IO[bytes], name: str, *, takes_objects: bool = False) -> NpyHeader:
    """Read the header of an npy file from its start.

    Args:
        stream: the file.
        name: of the field or array, for errors.
        takes_objects: accept object arrays too.

    Raises:
        Damaged: the file is not an npy file.
        Invalid: the array's elements are not numbers.
    """
    start = stream.read(len(_MAGIC) + 2)
    length_format = _LENGTHS.get(start[len(_MAGIC) :])
    if not start.startswith(_MAGIC) or length_format is None:
        raise Damaged(name, f"{start!r} at its start", "an npy array of version 1.0 or 2.0")
    try:
        (length,) = struct.unpack(length_format, stream.read(struct.calcsize(length_format)))
        if length > _LARGEST_HEADER:
            raise Damaged(name, f"a header of {length:,} bytes", f"at most {_LARGEST_HEADER:,}")
        shape, is_fortran, dtype = _parse_header(stream.read(length).decode("latin-1"))
    except (struct.error, ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise Damaged(name, error, _EXPECTED) from None
    # Objects are pickled, and unpickling would run code of the sender.
    if dtype.kind not in _KINDS and not (takes_objects and dtype == np.dtype("O")):
        hint = _NO_OBJECTS if dtype.hasobject else ""
        raise Invalid(name, f"dtype {dtype}", _EXPECTED, hint)
    return NpyHeader(shape, dtype, "F" if is_fortran else "C", stream.tell())


AS_FLAT = (
    "save plain arrays; join rows that differ in length end to end: "
    "np.savez(file, data=np.concatenate(rows), data_lengths=[len(row) for row in rows])"
)
"""How best to save a dataset whose examples differ in length."""

_NO_OBJECTS = f"pickled objects are only read in npz datasets; {AS_FLAT}"


def _literal(text: str) -> Any:
    """Evaluate a Python literal; repeat if Python 3.11 confuses it with one of another thread.

    Python 3.11 counts the recursion depth of all syntax trees being built in one shared counter,
    and raises SystemError if it is off at the end (github.com/python/cpython/issues/106905).
    """
    while True:
        try:
            return ast.literal_eval(text)
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise


def _parse_header(text: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Parse the header's dict; on some texts NumPy's own parser fails with tokenizer errors."""
    header = _literal(_PYTHON2_LONG.sub("", text).strip())
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("the header is not a dict of descr, fortran_order and shape")
    shape, is_fortran, descr = header["shape"], header["fortran_order"], header["descr"]
    if not isinstance(is_fortran, bool) or not isinstance(descr, str):
        raise ValueError(f"the dtype is {descr!r}, fortran_order {is_fortran!r}")
    dtype = np.dtype(descr)
    fault = shape_fault(shape, dtype) if isinstance(shape, tuple) else "a shape"
    if fault is not None:
        raise ValueError(f"it needs {fault}, the shape is {shape!r}")
    return shape, is_fortran, dtype


def read_npy(body: bytes | memoryview, name: str) -> HostArray:
    """Read an array from the bytes of an npy file, without a copy if they are aligned.

    Raises:
        Damaged: not an npy file, truncated, or with extra bytes at the end.
        Invalid: the array's elements are not numbers.
    """
    # The start alone: BytesIO copies a view while holding the interpreter's lock.
    header = read_npy_header(io.BytesIO(body[:_LARGEST_START]), name)
    got = len(body) - header.header_bytes
    if got != header.data_bytes:
        expected = f"{header.data_bytes} bytes for {header.dtype} {header.shape}"
        raise Damaged(name, f"{got} bytes of data", expected)
    count = math.prod(header.shape)
    flat = np.frombuffer(body, dtype=header.dtype, offset=header.header_bytes, count=count)
    return flat.reshape(header.shape, order=header.order)


def _members(archive: zipfile.ZipFile, limit: int, setting: str) -> Iterator[zipfile.ZipInfo]:
    """Yield the arrays of an npz file after checking their unpacked size.

    Raises:
        TooLarge: together they exceed the limit.
    """
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    if total > limit:
        raise TooLarge("the npz file unpacked", got=total, limit=limit, setting=setting)
    for member in members:
        if not member.filename.endswith(".npy"):
            raise Damaged(member.filename[:100], "a member that is no .npy", "only npy members")
        yield member


def read_npz(body: bytes, limit: int, setting: str) -> dict[str, HostArray]:
    """Read the arrays of an npz file by name.

    Args:
        body: the file.
        limit: bytes that all arrays together may take.
        setting: name of the setting with that limit, for the error.
    """
    try:
        with open_zip(io.BytesIO(body), "body") as archive:
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member)
                for member in _members(archive, limit, setting)
            }
    except (
        *(zipfile.BadZipFile, zlib.error, EOFError, struct.error),
        *(ValueError, NotImplementedError, RuntimeError),  # what zipfile says of encrypted members
    ) as error:
        raise Damaged(
            "body", f"not an npz file ({error})", "a file written by numpy.savez"
        ) from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> HostArray:
    name = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        assert isinstance(stream, zipfile.ZipExtFile)
        # The limit was checked against the sizes in the directory: read no byte more than they say.
        data = np.empty(member.file_size, np.uint8).data
        done = 0
        # In pieces, because each read copies while holding the interpreter's lock.
        while done < len(data) and (count := stream.readinto(data[done : done + _PIECE_BYTES])):
            done += count
    if done != len(data):
        raise Damaged(name, f"{done:,} bytes", f"the {len(data):,} of the directory")
    return read_npy(data, name)


def write_npy(array: HostArray) -> bytes:
    """Return an array as an npy file; bfloat16 becomes float32, because npy cannot name it."""
    return bytes(join(npy_pieces(array)))


def write_npz(arrays: Mapping[str, HostArray]) -> bytes:
    """Return arrays as an (uncompressed) npz file."""
    return b"".join(npz_pieces(arrays))


def npy_pieces(array: HostArray) -> tuple[bytes, HostArray]:
    """Return the parts of an array's npy file: the header, and the array itself."""
    if array.dtype == _BFLOAT16:
        array = array.astype(np.float32)
    array = np.asarray(array, order="C")  # else the header would say Fortran order
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return header.getvalue(), array


def npz_pieces(arrays: Mapping[str, HostArray]) -> Iterator[Buffer]:
    """Yield the parts of an (uncompressed) npz file."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=array.nbytes > _ZIP64_BYTES) as entry:
                for piece in npy_pieces(array):
                    octets = as_octets(piece)
                    for begin in range(0, octets.size, _PIECE_BYTES):
                        entry.write(octets[begin : begin + _PIECE_BYTES].data)
                        yield from sink.take()
            yield from sink.take()
    yield from sink.take()


class _Sink(io.RawIOBase):
    """A file without positions, from which what was written is taken."""

    def __init__(self) -> None:
        self._parts: list[Buffer] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Keep data, without a copy."""
        self._parts.append(data)
        return len(data)

    def take(self) -> list[Buffer]:
        """Return what was written since the last call."""
        parts, self._parts = self._parts, []
        return parts
