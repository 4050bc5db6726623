"""Bodies of ``multipart/form-data``: files are written to disk as they arrive, fields are small."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from fastapi import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from app.errors.tree import Invalid, Malformed
from app.tensors.codec import media_type

__all__ = [
    "FORM",
    "Form",
    "FormFile",
    "closed_beside_the_loop",
    "is_form",
    "parse_form",
    "read_form",
]

T = TypeVar("T")

FORM = "multipart/form-data"


class _File(Protocol):
    def write(self, data: bytes) -> None: ...


OpenFile = Callable[[str, str], _File]

_BLOCK = 1 << 20
_LARGEST_FIELDS = 1 << 16
_MOST_PARTS = 256


@dataclass(slots=True)
class Form:
    """Values of the fields by name, in the order in which they arrived, without files."""

    fields: dict[str, list[str]] = field(default_factory=dict)

    def pop(self, name: str) -> str | None:
        """Remove a field and return its last value; None if it is missing or empty."""
        values = self.fields.pop(name, [""])
        return values[-1] or None


class FormFile:
    """A file of a form, in memory; the size of its body was limited."""

    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.content += data


@asynccontextmanager
async def closed_beside_the_loop(files: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Leave in a thread, because removing a large file takes time."""
    opened = files.__enter__()
    try:
        yield opened
    finally:  # told of no error, because these remove what is left in any case
        await asyncio.to_thread(files.__exit__, None, None, None)


def is_form(request: Request) -> bool:
    """Return whether the body is a form with files."""
    return media_type(request.headers.get("content-type")) == FORM


async def read_form(request: Request, open_file: OpenFile) -> Form:
    """Read a form; uploads write its files, in a thread.

    Args:
        open_file: returns the upload for a part's name and its file's name.

    Raises:
        Malformed: it is not a form, or incomplete.
        Invalid: too many parts, or too much in the fields.
    """
    _, options = parse_options_header(request.headers.get("content-type"))
    reader = _FormReader(options.get(b"boundary", b""), open_file)
    block = bytearray()
    async for chunk in request.stream():
        block += chunk
        if len(block) >= _BLOCK:  # a thread for each chunk of some KiB would take longer
            await asyncio.to_thread(reader.write, bytes(block))
            block.clear()
    await asyncio.to_thread(reader.write, bytes(block))
    return reader.finish()


def parse_form(content_type: str | None, body: bytes, open_file: OpenFile) -> Form:
    """Read a form that is in memory; see ``read_form``."""
    _, options = parse_options_header(content_type)
    reader = _FormReader(options.get(b"boundary", b""), open_file)
    reader.write(body)
    return reader.finish()


class _FormReader:
    """Receives the parser's callbacks: part after part, header by header."""

    def __init__(self, boundary: bytes, open_file: OpenFile) -> None:
        if not boundary:
            raise Malformed(
                "the form's Content-Type has no boundary; let the client library set it, as curl "
                "-F does"
            )
        self._form = Form()
        self._open_file = open_file
        self._headers: dict[str, bytes] = {}
        self._header = bytearray()
        self._value = bytearray()
        self._name = ""
        self._text = bytearray()
        self._upload: _File | None = None
        self._parts = self._field_bytes = 0
        self._is_complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._add_to_header,
                    "on_header_value": self._add_to_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open_part,
                    "on_part_data": self._add_data,
                    "on_part_end": self._end_part,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise Malformed(f"the form's boundary: {error}") from None

    def write(self, data: bytes) -> None:
        """Parse these bytes."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise Malformed(f"the form cannot be read: {error}") from None

    def finish(self) -> Form:
        """Return the fields; raise Malformed if the body is incomplete."""
        if not self._is_complete:
            raise Malformed("the form ends before its last boundary")
        return self._form

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise Invalid("body", f"{self._parts} parts", f"at most {_MOST_PARTS}")
        self._headers = {}

    def _add_to_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[_decode(bytes(self._header)).lower()] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _open_part(self) -> None:
        disposition = self._headers.get("content-disposition", b"")
        _, options = parse_options_header(disposition)
        if b"name" not in options:
            raise Malformed("a part of the form has no name in its Content-Disposition")
        self._name = _decode(options[b"name"])
        file = options.get(b"filename")
        self._upload = (
            None if file is None else self._open_file(self._name, file.decode(errors="replace"))
        )
        self._text.clear()

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._upload is not None:
            self._upload.write(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > _LARGEST_FIELDS:
            expected = f"at most {_LARGEST_FIELDS} in all fields; send symbols as files"
            raise Invalid(self._name, "too many bytes", expected)
        self._text += data[start:end]

    def _end_part(self) -> None:
        if self._upload is None:
            self._form.fields.setdefault(self._name, []).append(_decode(bytes(self._text)))

    def _end(self) -> None:
        self._is_complete = True


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("a name or field of the form is not UTF-8") from None
