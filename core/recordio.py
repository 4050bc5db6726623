"""RecordIO files: sequences of records, as written by ``im2rec`` (``mx.recordio``).

A record is a magic number, a word with its length (29 bits) and its part flag (3 bits), and its
bytes, padded to a multiple of four. If the magic number occurs in the bytes at such a multiple, the
record is split into parts there (dmlc-core, ``recordio.h``).
"""

from __future__ import annotations

import io
import numbers
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .errors import FormatError, MXNetError, UsageError
from .imgproc import decode

__all__ = [
    "IRHeader",
    "MXIndexedRecordIO",
    "MXRecordIO",
    "decode_image",
    "encode_image",
    "pack",
    "pack_img",
    "unpack",
    "unpack_img",
]

_MAGIC = struct.pack("<I", 0xCED7230A)
_LENGTH_BITS = 29
_MAX_LENGTH = (1 << _LENGTH_BITS) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)

Image = np.ndarray[Any, Any]


class MXRecordIO:
    """A file of records, written or read from its start.

    Args:
        uri: path of the file.
        flag: ``"w"`` creates or overwrites the file, ``"r"`` reads it.

    Raises:
        ValueError: the flag is unknown. MXNetError: the file cannot be opened.
    """

    def __init__(self, uri: str, flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.is_open = False
        self.open()

    def open(self) -> None:
        """Open the file."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"Invalid flag {self.flag!r}; use 'r' or 'w'")
        self.writable = self.flag == "w"
        self._stream = _open(self.uri, f"{self.flag}b")
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Close the file; ``open`` or ``reset`` opens it again."""
        if self.is_open:
            self._stream.close()
            self.is_open = False
            self.pid = None

    def reset(self) -> None:
        """Go back to the start; a file open for writing is truncated."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record.

        Raises:
            UsageError: the file is open for reading, or the record is too long. RuntimeError: the
            file was opened by another process.
        """
        self._require(writable=True)
        if len(buf) > _MAX_LENGTH:
            raise UsageError(f"a record has {len(buf)} bytes; at most {_MAX_LENGTH} are possible")
        parts = _divided(buf)
        for number, part in enumerate(parts):
            is_first, is_last = number == 0, number == len(parts) - 1
            kind = _WHOLE if is_first and is_last else _FIRST if is_first else _MIDDLE
            kind = _LAST if is_last and not is_first else kind
            self._stream.write(_MAGIC + struct.pack("<I", kind << _LENGTH_BITS | len(part)))
            self._stream.write(part + bytes(-len(part) % 4))

    def read(self) -> bytes | None:
        """Return the next record; None at the end.

        Raises:
            FormatError: the file is damaged. UsageError, RuntimeError: as for ``write``.
        """
        self._require(writable=False)
        parts: list[bytes] = []
        while True:
            start = self._stream.tell()
            header = self._stream.read(8)
            if not header and not parts:
                return None
            if len(header) < 8 or header[:4] != _MAGIC:
                raise FormatError(f"{self.uri}: no record starts at byte {start}")
            (word,) = struct.unpack("<I", header[4:])
            kind, length = word >> _LENGTH_BITS, word & _MAX_LENGTH
            part = self._stream.read(length + -length % 4)
            if len(part) < length + -length % 4:
                raise FormatError(f"{self.uri}: the record at byte {start} is cut off")
            if (kind in (_WHOLE, _FIRST)) is bool(parts):  # a start within, or a rest without one
                raise FormatError(f"{self.uri}: parts of records are out of order at byte {start}")
            parts.append(part[:length])
            if kind in (_WHOLE, _LAST):
                return _MAGIC.join(parts)

    def places(self) -> Iterator[int]:
        """Yield the offset of each record, reading the file from its start."""
        self.reset()
        while True:
            place = self._stream.tell()
            if self.read() is None:
                return
            yield place

    def read_at(self, place: int) -> bytes:
        """Return the record at an offset; raise FormatError if there is none."""
        # A forked process shares the position in the file with its parent, so it opens it anew.
        self._check_pid(allow_reset=True)
        self._stream.seek(place)
        record = self.read()
        if record is None:
            raise FormatError(f"{self.uri}: no record starts at byte {place}")
        return record

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        is_open = self.is_open
        self.close()  # as in MXNet; it writes what is buffered before the copy opens the file
        state = dict(self.__dict__, is_open=is_open)
        state.pop("_stream", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, is_open=False)
        if state["is_open"]:
            self.open()

    def _check_pid(self, allow_reset: bool = False) -> None:
        if self.pid == os.getpid():
            return
        if not allow_reset:
            raise RuntimeError("Forbidden operation in multiple processes; open the file in each")
        self.reset()

    def _require(self, writable: bool) -> None:
        if not self.is_open:
            raise UsageError(f"{self.uri} is closed; call open() first")
        if self.writable is not writable:
            raise UsageError(f"{self.uri} is open with flag {self.flag!r}")
        self._check_pid()


class MXIndexedRecordIO(MXRecordIO):
    """A file of records with an index of their offsets, to read them in any order.

    Args:
        idx_path: path of the index, with a line ``key<TAB>offset`` for each record.
        uri: path of the records.
        flag: ``"w"`` or ``"r"``.
        key_type: converts the index's text to a key.
    """

    def __init__(
        self, idx_path: str, uri: str, flag: str, key_type: Callable[[Any], Any] = int
    ) -> None:
        self.idx_path = os.fspath(idx_path)
        self.key_type = key_type
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files."""
        super().open()
        self.idx, self.keys = {}, []
        self._index = _open(self.idx_path, self.flag)
        if self.writable:
            return
        for number, line in enumerate(self._index, 1):
            text, _, place = line.strip().partition("\t")
            try:
                key, position = self.key_type(text), int(place)
            except ValueError as error:
                raise FormatError(f"{self.idx_path}, line {number}: {error}") from None
            self.idx[key] = position
            self.keys.append(key)

    def close(self) -> None:
        """Close both files."""
        if self.is_open:
            super().close()
            self._index.close()

    def seek(self, idx: Any) -> None:
        """Make the record of a key the next one; raise KeyError if there is none."""
        if self.writable:
            raise UsageError(f"{self.uri} is open for writing; seek is for reading")
        self._check_pid(allow_reset=True)
        self._stream.seek(self.idx[idx])

    def tell(self) -> int:
        """Return the offset at which the next record will be written."""
        if not self.writable:
            raise UsageError(f"{self.uri} is open for reading; tell is for writing")
        place: int = self._stream.tell()
        return place

    def read_idx(self, idx: Any) -> bytes | None:
        """Return the record of a key."""
        self.seek(idx)
        return self.read()

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record with a key."""
        key, place = self.key_type(idx), self.tell()
        self.write(buf)
        self._index.write(f"{key}\t{place}\n")
        self.idx[key] = place
        self.keys.append(key)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_index", None)
        return state


class IRHeader(NamedTuple):
    """The header before the bytes of a record.

    Attributes:
        flag: number of labels if there are several, else arbitrary.
        label: a number, or an array of several.
        id, id2: the lower and the higher 64 bits of the record's number.
    """

    flag: int
    label: Any
    id: int
    id2: int


_HEADER = struct.Struct("IfQQ")  # MXNet's: in the machine's byte order, without a prefix


def pack(header: Any, s: bytes) -> bytes:
    """Return a record with a header and bytes; for an array of labels, ``flag`` is set to its
    size."""
    header = IRHeader(*header)
    if isinstance(header.label, numbers.Number):
        header = header._replace(flag=0)
    else:
        labels = np.asarray(header.label, dtype=np.float32)
        header = header._replace(flag=labels.size, label=0)
        s = labels.tobytes() + s
    return _HEADER.pack(*header) + s


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Return the header and the bytes of a record.

    Raises:
        FormatError: there are fewer bytes than the header needs.
    """
    if len(s) < _HEADER.size:
        raise FormatError(f"a record of {len(s)} bytes is too short for its header")
    header = IRHeader(*_HEADER.unpack_from(s))
    rest = s[_HEADER.size :]
    if header.flag > 0:
        if len(rest) < 4 * header.flag:
            raise FormatError(f"a record of {len(s)} bytes is too short for {header.flag} labels")
        header = header._replace(label=np.frombuffer(rest, np.float32, header.flag))
        rest = rest[4 * header.flag :]
    return header, rest


def pack_img(header: Any, img: Image, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Return a record of a header and an encoded image; see ``encode_image``."""
    return pack(header, encode_image(img, quality, img_fmt))


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, Image]:
    """Return the header and the image of a record; see ``decode_image``."""
    header, encoded = unpack(s)
    return header, decode_image(encoded, iscolor)


def encode_image(img: Image, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Encode an image as JPEG or PNG.

    Args:
        img: (height, width) grey or (height, width, 3) blue, green, red; uint8.
        quality: quality of JPEG, 1 to 100, or compression level of PNG, 0 to 9.
        img_fmt: ``".jpg"``, ``".jpeg"`` or ``".png"``.

    Raises:
        UsageError: the format, shape or dtype is not supported.
    """
    # Imported here, as in core.imgproc: the engine works without Pillow until it meets an image.
    from PIL import Image as pillow

    if img.dtype != np.uint8 or not (img.ndim == 2 or (img.ndim == 3 and img.shape[2] in (1, 3))):
        raise UsageError(
            f"an image is {img.dtype} of shape {img.shape}; expected uint8 of (height, width) or "
            "(height, width, 3)"
        )
    plain = img[..., 0] if img.ndim == 3 and img.shape[2] == 1 else img
    picture = pillow.fromarray(np.ascontiguousarray(plain[..., ::-1] if plain.ndim == 3 else plain))
    stream = io.BytesIO()
    if img_fmt.lower() in (".jpg", ".jpeg"):
        picture.save(stream, "JPEG", quality=quality)
    elif img_fmt.lower() == ".png":
        picture.save(stream, "PNG", compress_level=quality)
    else:
        raise UsageError(f"image format {img_fmt!r} is unknown; use .jpg or .png")
    return stream.getvalue()


def decode_image(encoded: bytes, iscolor: int = -1) -> Image:
    """Return an image: (height, width, 3) blue, green, red, or (height, width) grey; uint8.

    Args:
        encoded: bytes of a file that Pillow reads.
        iscolor: 1 always color, 0 always grey, -1 as it is.

    Raises:
        FormatError: the bytes are not an image.
    """
    pixels = decode(encoded, {1: 3, 0: 1}.get(iscolor))
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels[..., ::-1].copy()


def _divided(buf: bytes) -> list[bytes]:
    """Split a record at magic numbers at multiples of four."""
    parts, start, found = [], 0, buf.find(_MAGIC)
    while found >= 0:
        if found % 4 == 0:
            parts.append(buf[start:found])
            start = found + 4
            found = buf.find(_MAGIC, start)
        else:
            found = buf.find(_MAGIC, found + 1)
    return [*parts, buf[start:]]


def _open(path: str, mode: str) -> Any:
    try:
        return open(path, mode)
    except OSError as error:
        raise MXNetError(f"{path} cannot be opened: {error.strerror or error}") from error
