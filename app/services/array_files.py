"""The npy and npz formats, from strangers: headers first, sizes compared, no pickles."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from app.domain.dataset import ArrayInfo
from app.errors import Damaged
from app.services.dataset_limits import check_unpacked_size

__all__ = [
    "ONLY_ARRAY",
    "inspect_npy",
    "inspect_npz",
    "load_npy",
    "load_npz",
    "preview_npy",
    "preview_npz",
]

ONLY_ARRAY = "data"
"""Name of the array of an npy file."""

_MOST_MEMBERS = 1000
_LARGEST_HEADER = 10_000  # NumPy's own limit for headers it has to evaluate
_LONGEST_NAME = 128
_CHUNK = 1 << 20
_KINDS = "biuf"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, slots=True)
class _Header:
    """An npy header: what the array is, and how many bytes the header and the array take."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    header_bytes: int

    @property
    def data_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def info(self, name: str) -> ArrayInfo:
        return ArrayInfo(name=name, shape=self.shape, dtype=self.dtype.name)


def inspect_npy(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the array of an npy file; raise Damaged or TooLarge."""
    with path.open("rb") as file:
        header = _read_header(file, "file")
    _check_size("file", header, path.stat().st_size)
    check_unpacked_size(header.data_bytes, limit)
    return [header.info(ONLY_ARRAY)]


def inspect_npz(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the arrays of an npz file, every byte of which is checked; raise Damaged, TooLarge."""
    arrays = []
    with _open_zip(path) as archive:
        members = _members(archive)
        check_unpacked_size(sum(member.file_size for member in members.values()), limit)
        for name, member in members.items():
            with archive.open(member) as file:
                header = _read_header(file, name)
                _check_size(name, header, member.file_size)
                while file.read(_CHUNK):
                    pass  # the archive compares its checksum at the end
            arrays.append(header.info(name))
    return arrays


def load_npy(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the array of an npy file, as a read-only view of it."""
    return {ONLY_ARRAY: np.load(path, mmap_mode="r", allow_pickle=False)}


def load_npz(path: Path, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
    """Return those arrays of an npz file that are named and there."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names if name in archive}


def preview_npy(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of the array of an npy file."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return {ONLY_ARRAY: array[:rows] if array.ndim else array[None]}


def preview_npz(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of each array of an npz file; no more than those is unpacked."""
    heads = {}
    with _open_zip(path) as archive:
        for name, member in _members(archive).items():
            with archive.open(member) as file:
                heads[name] = _first_rows(file, _read_header(file, name), rows)
    return heads


def _first_rows(file: IO[bytes], header: _Header, rows: int) -> npt.NDArray[Any]:
    if not header.shape:
        return np.frombuffer(file.read(header.dtype.itemsize), header.dtype)
    count = min(rows, header.shape[0])
    row_shape = header.shape[1:]
    if header.is_fortran and row_shape:  # its rows are spread over the whole array
        data = np.frombuffer(file.read(header.data_bytes), header.dtype)
        return data.reshape(header.shape, order="F")[:count]
    wanted = count * math.prod(row_shape) * header.dtype.itemsize
    return np.frombuffer(file.read(wanted), header.dtype).reshape(count, *row_shape)


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error) as error:
        raise Damaged("file", str(error) or "a truncated archive", "a whole npz archive") from None
    except RuntimeError as error:  # what zipfile says of encrypted members
        raise Damaged("file", error, "an npz archive without encryption") from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    if not 0 < len(archive.infolist()) <= _MOST_MEMBERS:
        raise Damaged("file", f"{len(archive.infolist())} arrays", f"1 to {_MOST_MEMBERS}")
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise Damaged("file", f"member {name!r}", "arrays only, as numpy.savez writes them")
        if not _is_array_name(name) or name in members:
            raise Damaged("file", f"array {name!r}", "distinct names without separators")
        if member.compress_type not in _METHODS:
            raise Damaged(name, f"compression {member.compress_type}", "stored or deflated")
        members[name] = member
    return members


def _is_array_name(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable() and not set(name) & {"/", "\\"}


def _read_header(file: IO[bytes], name: str) -> _Header:
    expected = "an npy array of numbers or booleans"
    try:
        version = np.lib.format.read_magic(file)
        length_format = {(1, 0): "<H", (2, 0): "<I"}.get(version)
        if length_format is None:
            raise Damaged(name, f"npy version {version}", "version 1.0 or 2.0")
        raw = file.read(struct.calcsize(length_format))
        (length,) = struct.unpack(length_format, raw)
        if length > _LARGEST_HEADER:
            raise Damaged(name, f"a header of {length:,} bytes", f"at most {_LARGEST_HEADER:,}")
        text = file.read(length)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, dtype = read(io.BytesIO(raw + text))
    except (ValueError, struct.error, TypeError, MemoryError, RecursionError) as error:
        raise Damaged(name, error, expected) from None
    if dtype.kind not in _KINDS or dtype.hasobject or any(size < 0 for size in shape):
        hint = "pickled objects are never read; save plain arrays" if dtype.hasobject else ""
        raise Damaged(name, f"dtype {dtype}, shape {shape}", expected, hint)
    return _Header(shape, dtype, is_fortran, file.tell())


def _check_size(name: str, header: _Header, got: int) -> None:
    expected = header.header_bytes + header.data_bytes
    if got != expected:
        raise Damaged(name, f"{got:,} bytes", f"{expected:,} bytes for shape {header.shape}")
