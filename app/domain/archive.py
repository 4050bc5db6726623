"""What was used of an archive made for mxnet-model-server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import ConfigDict

from app.domain.codec import STRICT_FIELDS

__all__ = ["ArchiveFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFacts:
    """The manifest of an archive, and the use of its files.

    Attributes:
        model: name of its model.
        version: of the archive's format.
        handler: the Python code that mxnet-model-server would run, which is never run here.
        taken: files of the archive by their use: ``symbol``, ``params``, ``inputs``
            (the signature), ``labels``.
        passed_over: its other files, or the first of them.
        warnings: differences from that server.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    model: str
    version: str
    handler: str | None = None
    taken: dict[str, str] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
