"""NumPy's npy and npz files, read from hands that are not trusted.

Nothing is unpickled, and no array is larger than the bytes that came with it: a header that
promises more than follows is refused before anything is allocated.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from app.errors import Damaged, Invalid, TooLarge

__all__ = ["npy_header", "npz_members", "read_npy", "read_npz", "write_npy", "write_npz"]

HostArray = npt.NDArray[Any]

_LARGEST_HEADER = 65536


def npy_header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an npy file: (shape, Fortran order, dtype).

    Raises:
        Damaged: it is none, or one that no array of numbers can have.
    """
    try:
        version = np.lib.format.read_magic(stream)
        readers = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in readers:
            raise ValueError(f"version {version} is not read")
        shape, fortran, dtype = readers[version](stream, max_header_size=_LARGEST_HEADER)
    except (ValueError, TypeError, SyntaxError, EOFError, struct.error, OverflowError) as error:
        raise Damaged(name, f"no npy header ({error})", "a file written by numpy.save") from None
    if dtype.hasobject or dtype.names is not None or dtype.kind not in "biuf":
        raise Invalid(name, f"dtype {dtype}", "numbers or booleans: float, int, uint or bool")
    if any(not isinstance(dim, int) or dim < 0 for dim in shape):
        raise Damaged(name, f"shape {shape}", "dimensions of at least 0")
    return shape, fortran, dtype


def read_npy(body: bytes | memoryview, name: str) -> HostArray:
    """Read an array from the bytes of an npy file, without a copy where they are aligned.

    Raises:
        Damaged: not an npy file, cut short, or with bytes left over.
    """
    stream = io.BytesIO(body)
    shape, fortran, dtype = npy_header(stream, name)
    start = stream.tell()
    expected, got = math.prod(shape) * dtype.itemsize, len(body) - start
    if got != expected:
        raise Damaged(name, f"{got} bytes of data", f"{expected} bytes for {dtype} {shape}")
    flat = np.frombuffer(body, dtype=dtype, offset=start, count=math.prod(shape))
    return flat.reshape(shape, order="F" if fortran else "C")


def npz_members(archive: zipfile.ZipFile, limit: int, setting: str) -> Iterator[zipfile.ZipInfo]:
    """Yield the arrays of an npz file after checking what they unpack to.

    Raises:
        TooLarge: all together are over the limit.
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
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member)
                for member in npz_members(archive, limit, setting)
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise Damaged("body", f"no npz file ({error})", "a file written by numpy.savez") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> HostArray:
    with archive.open(member) as stream:
        # The size in the directory is what the limit was checked against: read no byte more.
        return read_npy(stream.read(member.file_size), member.filename.removesuffix(".npy"))


def write_npy(array: HostArray) -> bytes:
    """Return the npy file of an array."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def write_npz(arrays: Mapping[str, HostArray]) -> bytes:
    """Return the (uncompressed) npz file of arrays by name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", write_npy(array))
    return stream.getvalue()
