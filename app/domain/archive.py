"""What was taken over of an archive that was made for mxnet-model-server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import ConfigDict

from app.domain.codec import STRICT_FIELDS

__all__ = ["ArchiveFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFacts:
    """What an archive says of itself, and what became of its files.

    Attributes:
        model: its model's name.
        version: of the archive's format.
        handler: the Python code that its server would run, which is never run here.
        taken: files of the archive by what they were taken for: ``symbol``, ``params``, ``inputs``
            (the signature), ``labels``.
        passed_over: its other files, the first of them.
        warnings: what is not as it would be in that server.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    model: str
    version: str
    handler: str | None = None
    taken: dict[str, str] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
