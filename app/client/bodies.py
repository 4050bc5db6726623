"""Request bodies as values; each is opened again whenever its request is sent."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

__all__ = [
    "HEAVY_BYTES",
    "Body",
    "Content",
    "File",
    "FilePath",
    "Form",
    "Given",
    "Json",
    "Progress",
    "Source",
    "checkpoint_form",
    "counted",
]

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the bytes transferred so far, and the total."""

FilePath: TypeAlias = str | PathLike[str]
"""Path of a file or a folder."""

Source: TypeAlias = Path | bytes
"""A path of a file, or its content."""

_MANY_BYTES = 1 << 16
"""Larger bodies are sent in pieces: httpcore copies the unsent rest of a bytes object after every
partial write to the socket, so that 400 MB took ten seconds.
"""

HEAVY_BYTES = 1 << 20
"""Beyond this size, the event loop leaves encoding and decoding to a thread."""


class Body(Protocol):
    """The body of a request."""

    @property
    def is_heavy(self) -> bool:
        """Whether opening the body takes a while."""

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx; its files stay open until ``files`` is closed."""


@dataclass(frozen=True, slots=True)
class Json:
    """A value as JSON."""

    is_heavy: ClassVar[bool] = False
    value: Any

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx."""
        return {"json": self.value}


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a media type; None leaves it to the server to recognize them."""

    is_heavy: ClassVar[bool] = False
    content: bytes
    media_type: str | None = None

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx."""
        headers = {} if self.media_type is None else {"Content-Type": self.media_type}
        return {"content": _in_pieces(self.content), "headers": headers}


@dataclass(frozen=True, slots=True)
class File:
    """A file, sent as it is."""

    is_heavy: ClassVar[bool] = False
    path: Path

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx."""
        return {"content": files.enter_context(self.path.open("rb"))}


@dataclass(frozen=True, slots=True)
class Form:
    """A form of fields, of which lists are repeated, and files, given as (part's name, file)."""

    is_heavy: ClassVar[bool] = False
    fields: Mapping[str, Any]
    files: Sequence[tuple[str, Source]]

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the body as arguments of httpx."""
        parts = [(part, _named(source, files)) for part, source in self.files]
        return {"data": {name: _text(one) for name, one in self.fields.items()}, "files": parts}


@dataclass(frozen=True, slots=True)
class Given:
    """A body and other parts of a request that are already arguments of httpx."""

    is_heavy: ClassVar[bool] = False
    content: Any
    options: Mapping[str, Any]

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return the given arguments."""
        content = self.content
        return {
            **self.options,
            "content": _in_pieces(content) if isinstance(content, bytes) else content,
        }


def checkpoint_form(files: Sequence[FilePath], fields: Mapping[str, Any]) -> Form:
    """Return a form with the files of a checkpoint; their names decide the parts.

    The file with the bucket keys is left out: the symbols' names contain the keys.
    """
    parts = {".params": "params", ".states": "states"}
    named = {"params": "params"}  # without a suffix, as some tools write it
    sent = [path for path in map(Path, files) if path.suffix != ".buckets"]
    return Form(
        fields,
        [(named.get(path.name) or parts.get(path.suffix, "symbol"), path) for path in sent],
    )


def _in_pieces(content: bytes) -> bytes | io.BytesIO:
    return io.BytesIO(content) if len(content) > _MANY_BYTES else content


def _named(source: Source, files: ExitStack) -> tuple[str, Any]:
    if isinstance(source, bytes):
        return "file", source
    return source.name, files.enter_context(source.open("rb"))


def _text(value: Any) -> Any:
    """Return a form field's text; a list becomes several, a bool is ``true`` or ``false``."""
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def counted(pieces: Iterable[bytes], total: int, progress: Progress) -> Iterator[bytes]:
    """Yield the pieces of a body of ``total`` bytes, and report the progress."""
    sent = 0
    for piece in pieces:
        yield piece
        sent += len(piece)
        progress(sent, total)
