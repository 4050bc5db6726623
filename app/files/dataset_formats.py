"""What a dataset's file contains, read without trusting it, and its arrays for jobs.

    npy        one array, ``data``
    npz        its arrays by name; an object array is two, see ``array_files``
    csv        numbers: ``data`` of shape (rows, columns); with a header or texts one array a column
    jsonl      one object a line, of numbers and lists by name; see ``json_lines``
    libsvm     ``data`` of shape (rows, largest index + 1) and ``label``
    text       lines; no arrays
    recordio   records; no arrays

Headers are compared with the sizes of files before anything is allocated, nothing is unpickled, and
the unpacked size of an archive is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from app.domain.checkpoint import FileDigest
from app.domain.dataset import ArrayInfo, DatasetKind, DatasetRecord, lengths_name
from app.errors.tree import Conflict, Invalid
from app.files import array_files, csv_files, json_lines, libsvm_files, text_lines
from app.files.array_files import Rows
from app.files.record_files import count_records

__all__ = [
    "Contents",
    "describe_file",
    "first_rows",
    "inspect_file",
    "load_arrays",
    "plain_row",
    "preview_file",
]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_LONGEST_PREVIEW_ROW = 1024


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds: its arrays, its number of examples (None if the arrays disagree), and the
    class names of its images.
    """

    arrays: tuple[ArrayInfo, ...]
    examples: int | None
    classes: tuple[str, ...] = ()


def describe_file(
    name: str,
    path: Path,
    kind: DatasetKind,
    digest: FileDigest,
    *,
    limit: int,
    created_at: float,
) -> DatasetRecord:
    """Return the record of a dataset with this file; raises what ``inspect_file`` raises."""
    contents = inspect_file(path, kind, limit)
    return DatasetRecord(
        name=name,
        kind=kind,
        arrays=contents.arrays,
        examples=contents.examples,
        classes=contents.classes,
        size=digest.size,
        sha256=digest.sha256,
        created_at=created_at,
    )


def inspect_file(path: Path, kind: DatasetKind, limit: int) -> Contents:
    """Read all of a file and check that it can be used.

    Args:
        limit: most bytes that all of its arrays together may take in memory.

    Raises:
        Damaged: the file is not of its kind, truncated, altered or hostile.
        Invalid: its arrays are not of numbers.
        TooLarge: its arrays would take more than the limit.
    """
    match kind:
        case DatasetKind.TEXT:
            return Contents((), text_lines.count_lines(path))
        case DatasetKind.RECORDIO:
            return Contents((), count_records(path))
        case _:
            arrays = _INSPECTORS[kind](path, limit)
            classes = array_files.read_classes(path) if kind is DatasetKind.NPZ else ()
            return Contents(tuple(arrays), _count_examples(arrays), classes)


def _count_examples(arrays: Sequence[ArrayInfo]) -> int | None:
    """Return the length that all arrays share, except for those that have an array of lengths."""
    names = {array.name for array in arrays}
    counts = {
        array.shape[0] if array.shape else None
        for array in arrays
        if lengths_name(array.name) not in names
    }
    return counts.pop() if len(counts) == 1 else None


def load_arrays(
    path: Path, kind: DatasetKind, names: Collection[str], *, is_ours: bool
) -> dict[str, Rows]:
    """Return arrays of a file that ``inspect_file`` has accepted; large ones may remain in it.

    Args:
        is_ours: nobody else can change the file.

    Raises:
        Invalid: the file has no array of this name.
    """
    if kind in (DatasetKind.TEXT, DatasetKind.RECORDIO):
        raise Invalid(
            "dataset", kind.value, "a dataset with arrays: npz, npy, csv, jsonl or libsvm"
        )
    arrays: dict[str, Rows] = {}
    match kind:
        case DatasetKind.NPY:
            arrays = array_files.load_npy(path, names, is_ours)
        case DatasetKind.NPZ:
            arrays = array_files.load_npz(path, names, is_ours)
        case _:
            arrays |= _LOADERS[kind](path, names)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise Invalid("array", missing[0], "the name of an array of the dataset")
    return {name: arrays[name] for name in names}


def check_loaded(arrays: Mapping[str, Rows], record: DatasetRecord) -> None:
    """Raise Conflict unless arrays are as they were when their dataset was added.

    They differ if the file was changed, or if an earlier release read its format differently.
    """
    shapes = {array.name: array.shape for array in record.arrays}
    for name, array in arrays.items():
        if array.shape != tuple(shapes[name]):
            raise Conflict(
                f"array {name!r} of dataset {record.name!r} has shape {array.shape}, but had "
                f"{tuple(shapes[name])} when the dataset was added; add it again"
            )


def preview_file(path: Path, kind: DatasetKind, rows: int) -> dict[str, Any]:
    """Return the first rows as plain Python values, without reading the rest.

    Returns:
        For each array a list of rows, each a nested list, or None if a row is too long to
        show; for text ``{"lines": [...]}``; for RecordIO nothing.
    """
    match kind:
        case DatasetKind.TEXT:
            return {"lines": text_lines.first_lines(path, rows)}
        case DatasetKind.RECORDIO:
            return {}
        case _:
            heads = first_rows(path, kind, rows)
            return {name: [plain_row(row) for row in head] for name, head in heads.items()}


def first_rows(path: Path, kind: DatasetKind, rows: int) -> Arrays:
    """Return the first rows of each array without reading the rest; texts as they are."""
    return _PREVIEWERS[kind](path, rows)


def plain_row(row: Any) -> Any:
    """Return a row as plain Python values; None if it is too long to show."""
    array = np.asarray(row)
    if array.size > _LONGEST_PREVIEW_ROW:
        return None
    if array.dtype in (np.float16, np.float32):  # with the digits that they have: 3.2
        array = array.astype(str).astype(np.float64)
    return _finite(array.tolist())


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON cannot express."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


_INSPECTORS: Mapping[DatasetKind, Callable[[Path, int], list[ArrayInfo]]] = {
    DatasetKind.NPY: array_files.inspect_npy,
    DatasetKind.NPZ: array_files.inspect_npz,
    DatasetKind.CSV: csv_files.inspect_csv,
    DatasetKind.JSONL: json_lines.inspect_jsonl,
    DatasetKind.LIBSVM: libsvm_files.inspect_libsvm,
}

_LOADERS: Mapping[DatasetKind, Callable[[Path, Collection[str]], Arrays]] = {
    DatasetKind.CSV: csv_files.load_csv,
    DatasetKind.JSONL: json_lines.load_jsonl,
    DatasetKind.LIBSVM: libsvm_files.load_libsvm,
}

_PREVIEWERS: Mapping[DatasetKind, Callable[[Path, int], Arrays]] = {
    DatasetKind.NPY: array_files.preview_npy,
    DatasetKind.NPZ: array_files.preview_npz,
    DatasetKind.CSV: csv_files.preview_csv,
    DatasetKind.JSONL: json_lines.preview_jsonl,
    DatasetKind.LIBSVM: libsvm_files.preview_libsvm,
}
