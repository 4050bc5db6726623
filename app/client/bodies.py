"""What requests carry, as values: opened anew each time that a request is sent."""

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
"""Is called with the bytes sent, or received, so far, and with those in all."""

FilePath: TypeAlias = str | PathLike[str]
"""Where a file or a folder lies."""

Source: TypeAlias = Path | bytes
"""A file where it is, or its content."""

_MANY_BYTES = 1 << 16
"""More are sent in pieces. Of bytes sent as they are httpcore copies, whenever the socket has taken
some, all that are left: 400 MB took ten seconds."""


HEAVY_BYTES = 1 << 20
"""An event loop does not wait until more are encoded or decoded."""


class Body(Protocol):
    """What a request carries."""

    @property
    def is_heavy(self) -> bool:
        """Whether it takes a while to be opened."""

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return it as arguments of httpx; files are open for as long as ``files`` is."""


@dataclass(frozen=True, slots=True)
class Json:
    """A value as JSON."""

    is_heavy: ClassVar[bool] = False
    value: Any

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return it as arguments of httpx."""
        return {"json": self.value}


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a media type; the server tells it by the first bytes where it is None."""

    is_heavy: ClassVar[bool] = False
    content: bytes
    media_type: str | None = None

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return them as arguments of httpx."""
        headers = {} if self.media_type is None else {"Content-Type": self.media_type}
        return {"content": _in_pieces(self.content), "headers": headers}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is."""

    is_heavy: ClassVar[bool] = False
    path: Path

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return it as arguments of httpx."""
        return {"content": files.enter_context(self.path.open("rb"))}


@dataclass(frozen=True, slots=True)
class Form:
    """A form: fields, of which lists are repeated, and (name of the part, file)."""

    is_heavy: ClassVar[bool] = False
    fields: Mapping[str, Any]
    files: Sequence[tuple[str, Source]]

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return it as arguments of httpx."""
        parts = [(part, _named(source, files)) for part, source in self.files]
        return {"data": {name: _text(one) for name, one in self.fields.items()}, "files": parts}


@dataclass(frozen=True, slots=True)
class Given:
    """A body, and whatever else of a request, as arguments of httpx."""

    is_heavy: ClassVar[bool] = False
    content: Any
    options: Mapping[str, Any]

    def opened(self, files: ExitStack) -> dict[str, Any]:
        """Return them."""
        content = self.content
        return {
            **self.options,
            "content": _in_pieces(content) if isinstance(content, bytes) else content,
        }


def checkpoint_form(files: Sequence[FilePath], fields: Mapping[str, Any]) -> Form:
    """Return a form with files of a checkpoint, each under the name that its ending tells.

    The file with the keys of buckets is left out: the names of their symbols have them.
    """
    parts = {".params": "params", ".states": "states"}
    sent = [path for path in map(Path, files) if path.suffix != ".buckets"]
    return Form(fields, [(parts.get(path.suffix, "symbol"), path) for path in sent])


def _in_pieces(content: bytes) -> bytes | io.BytesIO:
    return io.BytesIO(content) if len(content) > _MANY_BYTES else content


def _named(source: Source, files: ExitStack) -> tuple[str, Any]:
    if isinstance(source, bytes):
        return "file", source
    return source.name, files.enter_context(source.open("rb"))


def _text(value: Any) -> Any:
    """Return a field of a form: a list repeats it, a flag is a word."""
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def counted(pieces: Iterable[bytes], total: int, progress: Progress) -> Iterator[bytes]:
    """Yield the pieces of a body of so many bytes, and tell how far it is."""
    sent = 0
    for piece in pieces:
        yield piece
        sent += len(piece)
        progress(sent, total)
