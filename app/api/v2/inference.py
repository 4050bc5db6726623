"""An inference: its request is read and submitted, and its response is written.

The fast path and the router differ only in how bytes arrive and leave; the rest is here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypedDict

from app.api.v2.codings import compress
from app.api.v2.infer_answer import Answers, Written
from app.api.v2.infer_request import InferHeader, Wish, read_header
from app.domain.module import ModuleRecord
from app.errors.tree import Invalid, Malformed, ServiceError
from app.link.client import Asked, OnOutcome, Outcome
from app.link.signatures import Target
from app.link.slots import Piece
from app.services.modules.versions import Version, Versions
from app.services.predictions.predictions import Predictions
from app.tensors.content import Content

__all__ = ["FEW_BYTES", "LENGTH_FIELD", "Inferences", "Writer", "header_bytes_of", "split"]

LENGTH_FIELD = "inference-header-content-length"
FEW_BYTES = 1 << 14
"""This much is read or written within a millisecond or two."""
_MOST_KNOWN = 4096
_LONGEST_LENGTH = 18  # digits: fewer than 2**63, and quick to convert

Writer = Callable[[Outcome], Written]


class _Urgency(TypedDict):
    deadline: float
    priority: int


class Inferences:
    """Reads, submits and writes; caches what repeats from request to request.

    Attributes:
        versions: choose which version answers.
    """

    def __init__(self, predictions: Predictions, versions: Versions) -> None:
        self.versions = versions
        self._predictions = predictions
        self._headers: dict[bytes, InferHeader] = {}
        self._answers: dict[tuple[str, str], Answers] = {}

    def record(self, model: str) -> ModuleRecord | None:
        """Return a model's record, if it is cached."""
        return self._predictions.record(model)

    def read(self, text: bytes) -> InferHeader:
        """Read the JSON of a request; cached, as it often repeats if it has no numbers or ids."""
        header = self._headers.get(text)
        if header is None:
            header = read_header(text)
            is_own = header.inline or header.wish.request_id or header.part is not None
            if not is_own and len(text) <= FEW_BYTES:
                if len(self._headers) >= _MOST_KNOWN:
                    self._headers.clear()
                self._headers[text] = header
        return header

    def read_if_sound(self, text: bytes) -> InferHeader | None:
        """Return the same; None for malformed JSON.

        That a version does not exist is reported first.
        """
        try:
            return self.read(text)
        except ServiceError:
            return None

    def ask(
        self,
        record: ModuleRecord,
        version: Version,
        header: InferHeader,
        behind: memoryview,
        on_outcome: OnOutcome,
    ) -> Asked:
        """Submit the inference; raise what prevents it."""
        wanted = self._wanted(record, version, header, behind)
        return self._predictions.ask(*wanted, on_outcome, **_urgency(header))

    async def outcome(
        self, record: ModuleRecord, version: Version, header: InferHeader, behind: memoryview
    ) -> Outcome:
        """Return its outcome, which the caller must release; raise its error."""
        wanted = self._wanted(record, version, header, behind)
        return await self._predictions.outcome(*wanted, **_urgency(header))

    def _wanted(
        self, record: ModuleRecord, version: Version, header: InferHeader, behind: memoryview
    ) -> tuple[ModuleRecord, Version, Target, list[Piece]]:
        pieces = header.pieces(behind)
        target = self._predictions.target(
            record, version, header.rows, part=header.part, is_strict=True
        )
        return record, version, target, pieces

    def writer(
        self,
        record: ModuleRecord,
        version: str,
        wish: Wish,
        coding: str | None,
    ) -> Writer:
        """Return the response's writer, which raises Invalid for an output that does not exist."""
        model = record.public_name
        answers = self._answers.get((model, version))
        if answers is None:
            if len(self._answers) >= _MOST_KNOWN:
                self._answers.clear()
            answers = self._answers[model, version] = Answers(model, version)

        def write(outcome: Outcome) -> Written:
            written = answers.write(outcome, wish, record.labels)
            if coding is None:
                return written
            content = Content(compress(written.content, coding))
            return Written(content, written.header_bytes, coding)

        return write


def _urgency(header: InferHeader) -> _Urgency:
    deadline = time.monotonic() + header.timeout_us * 1e-6 if header.timeout_us else 0.0
    return {"deadline": deadline, "priority": header.priority}


def header_bytes_of(text: str | None) -> int | None:
    """Return the value of ``Inference-Header-Content-Length``; raise Invalid."""
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > _LONGEST_LENGTH:
        raise Invalid("Inference-Header-Content-Length", text, "a number of bytes")
    return int(text)


def split(body: bytes, header_bytes: int | None) -> tuple[bytes, memoryview]:
    """Return the JSON of a request and the bytes after it; raise Malformed."""
    if header_bytes is None:
        return body, memoryview(b"")
    if header_bytes > len(body):
        raise Malformed(
            f"Inference-Header-Content-Length is {header_bytes}, the body has only {len(body)} "
            "bytes; send the length of the JSON at its start"
        )
    return body[:header_bytes], memoryview(body)[header_bytes:]
