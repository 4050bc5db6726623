"""Images in one untrusted file: zip, tar, tar.gz, or RecordIO as im2rec packs them.

The unpacked size is limited before anything is decoded, and no path may lead out of the file.
"""

from __future__ import annotations

import errno
import gzip
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from app.domain.image_classes import number_by_folder
from app.errors.tree import Damaged, Invalid, TooLarge
from app.files.archive_entries import checked_path, is_system_file, shortened
from app.files.cautious_tar import open_tar, tar_entries
from app.files.dataset_limits import SETTING
from app.files.record_files import MAGIC, read_record, record_parts
from app.tensors.zip_archives import open_zip

__all__ = ["ImageSource", "open_images"]

_FIELD = "images"
_ENDINGS = frozenset(
    {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)
_WANTED = "a zip, tar or tar.gz file of images, or a RecordIO file that im2rec made"
_LARGEST_DIRECTORY = 1 << 27
_LARGEST_IMAGE = 1 << 26
_BLOCK = 1 << 20
_HEADER = struct.Struct("<IfQQ")
"""MXNet's ``IRHeader``: flag, label, id, id2. The flag is the number of labels that follow, or 0 if
there is only the one within."""
_ENCRYPTED = 0x1

_FAULTS = (
    *(zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError),
    *(ValueError, RuntimeError, struct.error),
)
"""What the libraries raise for files that are not archives."""


@dataclass(frozen=True, slots=True)
class ImageSource:
    """The images of an open file.

    Attributes:
        paths: names of the images.
        classes: class names in the order of their labels; empty if the labels are only numbers.
        labels: a number or a row of numbers for each image; empty if there are none.
        read: returns the bytes of an image by its index; fastest in ascending order.
    """

    paths: Sequence[str]
    classes: tuple[str, ...]
    labels: Sequence[float | tuple[float, ...]]
    read: Callable[[int], bytes]


@contextmanager
def open_images(path: Path, known: Sequence[str] | None, limit: int) -> Iterator[ImageSource]:
    """Open a file of images for the block.

    Args:
        known: class names to use, if they must be those of another dataset.
        limit: most bytes that the images may unpack to.

    Raises:
        Damaged: it is not such a file, or has entries that no such file has.
        Invalid: it has no images, or its folders do not match the classes.
        TooLarge: it would unpack to more than the limit.
    """
    with path.open("rb") as file, _translate_errors():
        head = file.read(4)
        file.seek(0)
        if head == MAGIC:
            yield _of_records(path, file, known)
        elif head[:2] == b"PK":
            with open_zip(file, _FIELD, _LARGEST_DIRECTORY) as archive:
                yield _of_zip(archive, known, limit)
        else:
            with open_tar(file, _FIELD, _WANTED, limit, partial(_too_large, None, limit)) as tar:
                yield _of_tar(tar, known)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except _FAULTS as error:
        raise Damaged(_FIELD, str(error) or "a truncated file", _WANTED) from None
    except OSError as error:
        if error.errno not in (errno.EINVAL, None):  # a position before the start of the file
            raise
        raise Damaged(_FIELD, str(error), _WANTED) from None


def _too_large(size: int | None, limit: int) -> TooLarge:
    return TooLarge("the images unpacked, in bytes", got=size, limit=limit, setting=SETTING)


def _of_zip(archive: zipfile.ZipFile, known: Sequence[str] | None, limit: int) -> ImageSource:
    entries = {}
    for info in archive.infolist():
        path = checked_path(info.filename, info.external_attr >> 16, _FIELD)
        if info.flag_bits & _ENCRYPTED:
            got = f"entry {shortened(path)}, encrypted"
            raise Damaged(_FIELD, got, "files that can be read")
        if not info.is_dir() and _is_image(path):
            entries[path] = info
    total = sum(info.file_size for info in entries.values())
    if total > limit:
        raise _too_large(total, limit)
    paths = sorted(entries, key=lambda path: path.split("/"))

    def read(index: int) -> bytes:
        with _translate_errors(), archive.open(entries[paths[index]]) as file:
            return _whole(file, paths[index])

    return _by_folder(paths, known, read)


def _of_tar(archive: tarfile.TarFile, known: Sequence[str] | None) -> ImageSource:
    """Index a tar file in its stored order: a compressed one can only be read sequentially."""
    entries: dict[str, tarfile.TarInfo] = {}
    for path, info in tar_entries(archive, _FIELD):
        if not _is_image(path):
            continue
        if path in entries:
            raise Damaged(_FIELD, f"entry {shortened(path)} twice", "entries of distinct names")
        entries[path] = info
    paths = list(entries)

    def read(index: int) -> bytes:
        with _translate_errors():
            file = archive.extractfile(entries[paths[index]])
            assert file is not None
            with file:
                return _whole(file, paths[index])

    return _by_folder(paths, known, read)


def _by_folder(
    paths: Sequence[str], known: Sequence[str] | None, read: Callable[[int], bytes]
) -> ImageSource:
    if not paths:
        raise Invalid(_FIELD, "none", f"files of images, which end {', '.join(sorted(_ENDINGS))}")
    classes, labels = number_by_folder(paths, known)
    return ImageSource(paths, classes, labels, read)


def _of_records(path: Path, file: BinaryIO, known: Sequence[str] | None) -> ImageSource:
    """im2rec packs a header with the label before each image, but no class names."""
    if known is not None:
        raise Invalid("classes_of", "a RecordIO file", "none: its labels are numbers already")
    records = list(record_parts(path))
    if not records:
        raise Invalid(_FIELD, "none", "records with images, as im2rec packs them")
    labels: list[float | tuple[float, ...]] = []
    starts = []
    for index, parts in enumerate(records):
        file.seek(parts[0].position)
        raw = file.read(min(_HEADER.size, parts[0].length))
        if len(raw) < _HEADER.size:
            raise Damaged(f"record {index}", f"{len(raw)} bytes", "a header, as im2rec packs it")
        count, label, _, _ = _HEADER.unpack(raw)
        starts.append(_HEADER.size + 4 * count)
        if starts[-1] > parts[0].length:
            raise Damaged(
                f"record {index}", f"{count} labels", "no more labels than the record has bytes for"
            )
        labels.append(struct.unpack(f"<{count}f", file.read(4 * count)) if count else label)
        if _width(labels[-1]) != _width(labels[0]):
            expected = f"{_width(labels[0])}, as the first has: all must have the same width"
            raise Invalid(f"record {index}", f"{_width(labels[-1])} labels", expected)

    def read(index: int) -> bytes:
        size = sum(part.length for part in records[index])
        if size > _LARGEST_IMAGE:
            raise Damaged(f"record {index}", f"{size:,} bytes", f"at most {_LARGEST_IMAGE:,}")
        return read_record(file, records[index])[starts[index] :]

    return ImageSource([f"record {index}" for index in range(len(records))], (), labels, read)


def _width(label: float | tuple[float, ...]) -> int:
    return len(label) if isinstance(label, tuple) else 1


def _is_image(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in _ENDINGS and not is_system_file(path)


def _whole(file: IO[bytes], path: str) -> bytes:
    content = bytearray()
    while block := file.read(_BLOCK):
        content += block
        if len(content) > _LARGEST_IMAGE:
            raise Damaged(shortened(path), "a larger file", f"at most {_LARGEST_IMAGE:,} bytes")
    return bytes(content)
