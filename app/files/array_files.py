"""The npy and npz formats, read without trust: headers first, sizes compared, nothing unpickled.

An object array in an npz file, which NumPy pickles, becomes two arrays: its examples joined end to
end, and their lengths.
"""

from __future__ import annotations

import dataclasses
import errno
import struct
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from app.domain.dataset import ArrayInfo, lengths_name
from app.domain.labels import parse_labels
from app.errors.tree import Damaged, Invalid
from app.files.dataset_limits import check_unpacked_size
from app.files.file_rows import FileRows
from app.files.object_arrays import LARGEST_OBJECTS, Examples, read_examples
from app.tensors.npy import AS_FLAT, NpyHeader, read_npy_header
from app.tensors.zip_archives import open_zip

__all__ = [
    "CLASSES_MEMBER",
    "ONLY_ARRAY",
    "Rows",
    "inspect_npy",
    "inspect_npz",
    "load_npy",
    "load_npz",
    "preview_npy",
    "preview_npz",
    "read_classes",
    "write_member",
]

Rows: TypeAlias = npt.NDArray[Any] | FileRows
"""An array, in memory or of rows that are read from a file."""

ONLY_ARRAY = "data"
"""Name of the array of an npy file."""

CLASSES_MEMBER = "classes.txt"
"""Member of an npz file of images beside its arrays: the class names, one a line."""

_MOST_MEMBERS = 1000
_LARGEST_CLASSES = 1 << 23
_LARGE_BYTES = 1 << 26
"""Smaller arrays are read at once: a map costs a page fault per 4 KiB, and keeps the file open."""
_ALIGNMENT = 64
_ALIGNMENT_EXTRA = 0xD935
_LONGEST_NAME = 128
_CHUNK = 1 << 20
_OTHER_KINDS = "say by ?kind= if it is npy, csv, libsvm, recordio or text"


def inspect_npy(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the array of an npy file; raise Damaged or TooLarge."""
    with path.open("rb") as file:
        header = read_npy_header(file, "file")
    _check_size("file", header, path.stat().st_size)
    check_unpacked_size(header.data_bytes, limit)
    return [_info(ONLY_ARRAY, header)]


def inspect_npz(path: Path, limit: int) -> list[ArrayInfo]:
    """Return the arrays of an npz file, after reading all of it; raise Damaged or TooLarge."""
    arrays = []
    with _open_zip(path) as archive:
        members = _members(archive)
        size = sum(member.file_size for member in members.values())
        check_unpacked_size(size, limit)
        for name, member in members.items():
            with archive.open(member) as file:
                header = read_npy_header(file, name, takes_objects=True)
                if header.dtype.hasobject:
                    found = _named(name, _read_objects(file, name, header, member, limit - size))
                    size += sum(array.nbytes for array in found.values())
                    arrays += [_info(one, array) for one, array in found.items()]
                    continue
                _check_size(name, header, member.file_size)
                while file.read(_CHUNK):
                    pass  # reading to the end makes zipfile compare the checksum
            arrays.append(_info(name, header))
    names = [array.name for array in arrays]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Damaged(
            "file", f"the name {twice!r}", "another name: this one is taken by the lengths"
        )
    return arrays


def read_classes(path: Path) -> tuple[str, ...]:
    """Return the class names that an npz file has beside its arrays; raise Damaged."""
    with _open_zip(path) as archive:
        if CLASSES_MEMBER not in archive.namelist():
            return ()
        with archive.open(CLASSES_MEMBER) as file:
            content = file.read(_LARGEST_CLASSES + 1)
    if len(content) > _LARGEST_CLASSES:
        raise Damaged(CLASSES_MEMBER, "a larger file", f"at most {_LARGEST_CLASSES:,} bytes")
    try:
        return parse_labels(content, CLASSES_MEMBER)
    except Invalid as error:
        raise Damaged.from_errors(error.field_errors()) from None


def write_member(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    rows: Iterable[npt.NDArray[Any]],
) -> None:
    """Write an array to an npz file in pieces, uncompressed; if written first, it can be mapped.

    Args:
        rows: consecutive pieces that together have the shape.
    """
    entry = zipfile.ZipInfo(f"{name}.npy")
    # After the local header (30 bytes and the name) come zip64's sizes (20 bytes), then a padding
    # field, with the id that Android's zipalign gives it, which aligns the start of the array.
    before = archive.fp.tell() + 30 + len(entry.filename.encode()) + 20  # type: ignore[union-attr]
    padding = -(before + 4) % _ALIGNMENT
    entry.extra = struct.pack("<HH", _ALIGNMENT_EXTRA, padding) + bytes(padding)
    with archive.open(entry, "w", force_zip64=True) as file:
        description = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, description)
        for row in rows:
            file.write(np.ascontiguousarray(row, dtype).tobytes())


def load_npy(path: Path, names: Collection[str], is_ours: bool = True) -> dict[str, Rows]:
    """Return the array of an npy file, as ``load_npz`` does."""
    with path.open("rb") as file:
        header = read_npy_header(file, "file")
        array = _in_file(path, header.header_bytes, header, is_ours)
        return {ONLY_ARRAY: _read_array(file, header) if array is None else array}


def load_npz(path: Path, names: Collection[str], is_ours: bool = True) -> dict[str, Rows]:
    """Return those of the named arrays that an npz file has, read-only.

    Args:
        is_ours: nobody else changes the file, so that large uncompressed arrays can be views of it;
            of another file their rows are read when they are needed.
    """
    arrays: dict[str, Rows] = {}
    with _open_zip(path) as archive:
        for name, member in _members(archive).items():
            if name in names or lengths_name(name) in names:
                with archive.open(member) as file:
                    header = read_npy_header(file, name, takes_objects=True)
                    if header.dtype.hasobject:
                        found = _named(name, _read_objects(file, name, header, member))
                        arrays |= {one: array for one, array in found.items() if one in names}
                    elif name in names:
                        start = _start(path, member, header)
                        array = None if start is None else _in_file(path, start, header, is_ours)
                        arrays[name] = _read_array(file, header) if array is None else array
    return arrays


def _read_objects(
    file: IO[bytes],
    name: str,
    header: NpyHeader,
    member: zipfile.ZipInfo,
    limit: int = sys.maxsize,
) -> Examples:
    if len(header.shape) != 1:
        raise Invalid(name, f"lists in shape {header.shape}", "one list for each example")
    if member.file_size > LARGEST_OBJECTS:
        got, expected = f"lists of {member.file_size:,} bytes", f"at most {LARGEST_OBJECTS:,}"
        raise Invalid(name, got, expected, AS_FLAT)
    return read_examples(file, name, header.shape[0], limit)


def _named(name: str, examples: Examples) -> dict[str, npt.NDArray[Any]]:
    arrays = {name: examples.values}
    if examples.lengths is not None:
        arrays[lengths_name(name)] = examples.lengths
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _start(path: Path, member: zipfile.ZipInfo, header: NpyHeader) -> int | None:
    """Return where the array of a member begins in the file; None if it is compressed."""
    if member.compress_type != zipfile.ZIP_STORED:
        return None
    with path.open("rb") as file:
        # From the local header: its extra field may be longer than the one that zipfile has read
        # from the central directory.
        file.seek(member.header_offset + 26)
        name_bytes, extra_bytes = struct.unpack("<HH", file.read(4))
        return int(member.header_offset + 30 + name_bytes + extra_bytes + header.header_bytes)


def _in_file(path: Path, start: int, header: NpyHeader, is_ours: bool) -> Rows | None:
    """Return an array that remains in its file; None if reading it at once is better."""
    if header.data_bytes < _LARGE_BYTES:
        return None
    if not is_ours:
        is_by_row = header.order == "C" and header.shape
        return FileRows(path, start, header.shape, header.dtype) if is_by_row else None
    if start % header.dtype.alignment:
        return None
    return np.memmap(path, header.dtype, "r", start, header.shape, header.order)


def preview_npy(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of the array of an npy file, reading no more than those."""
    try:
        with path.open("rb") as file:
            return {ONLY_ARRAY: _first_rows(file, read_npy_header(file, "file"), rows)}
    except EOFError as error:
        raise Damaged("file", error, "a whole npy array") from None


def preview_npz(path: Path, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Return the first rows of each array of an npz file, unpacking no more than those."""
    heads: dict[str, npt.NDArray[Any]] = {}
    with _open_zip(path) as archive:
        for name, member in _members(archive).items():
            with archive.open(member) as file:
                header = read_npy_header(file, name, takes_objects=True)
                if header.dtype.hasobject:
                    examples = _read_objects(file, name, header, member)
                    heads |= _named(name, examples.first(rows))
                else:
                    heads[name] = _first_rows(file, header, rows)
    return heads


def _read_array(file: IO[bytes], header: NpyHeader) -> npt.NDArray[Any]:
    """Return the array, read-only, read in pieces: a read of all of a large member keeps Python's
    global lock, and with it every other thread, for a second per GB."""
    array = np.empty(header.shape, header.dtype, order=header.order)
    rest = array.reshape(-1, order="A").view(np.uint8).data
    while len(rest):
        count = file.readinto(rest[:_CHUNK])  # type: ignore[attr-defined]
        if not count:
            raise EOFError("the file ended within its array")
        rest = rest[count:]
    array.flags.writeable = False
    return array


def _first_rows(file: IO[bytes], header: NpyHeader, rows: int) -> npt.NDArray[Any]:
    if not header.shape:
        return _read_array(file, header)[None]
    count = min(rows, header.shape[0])
    if header.order == "F":  # its rows are spread over the whole array
        return _read_array(file, header)[:count]
    return _read_array(file, dataclasses.replace(header, shape=(count, *header.shape[1:])))


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with path.open("rb") as file, open_zip(file, "file") as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error) as error:
        got = str(error) or "a truncated archive"
        raise Damaged("file", got, "a whole npz archive", _OTHER_KINDS) from None
    except RuntimeError as error:  # what zipfile says of encrypted members
        raise Damaged("file", error, "an npz archive without encryption") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a position before the start of the file
            raise
        raise Damaged("file", error, "a whole npz archive") from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    if not 0 < len(archive.infolist()) <= _MOST_MEMBERS:
        raise Damaged("file", f"{len(archive.infolist())} arrays", f"1 to {_MOST_MEMBERS}")
    for member in archive.infolist():
        if member.filename == CLASSES_MEMBER:
            continue
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise Damaged("file", f"member {name!r}", "arrays only, as numpy.savez writes them")
        if not _is_array_name(name) or name in members:
            raise Damaged("file", f"array {name!r}", "distinct names without separators")
        members[name] = member
    return members


def _is_array_name(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable() and not set(name) & {"/", "\\"}


def _info(name: str, array: NpyHeader | npt.NDArray[Any]) -> ArrayInfo:
    return ArrayInfo(name=name, shape=array.shape, dtype=array.dtype.name)


def _check_size(name: str, header: NpyHeader, got: int) -> None:
    expected = header.header_bytes + header.data_bytes
    if got != expected:
        raise Damaged(name, f"{got:,} bytes", f"{expected:,} bytes for shape {header.shape}")
