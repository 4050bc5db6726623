"""``POST /v2/models/{model}/infer`` with a small body, in the fast path."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from urllib.parse import unquote

from app.api.contents import fast_body
from app.api.exchanges import Begin, Later, Opener, Pending, RequestHead, Respond
from app.api.v1.raw_inputs import RawInputs
from app.api.v2.codings import chosen_coding
from app.api.v2.infer_request import InferHeader
from app.api.v2.inference import FEW_BYTES, LENGTH_FIELD, Inferences, Writer, header_bytes_of, split
from app.api.v2.raw_tensors import has_bytes, with_tensors
from app.errors.answers import error_answer
from app.errors.tree import NotFound, ServiceError
from app.link.client import Outcome
from app.services.modules.versions import Version
from app.tensors.content import Content

__all__ = ["InferFastPath"]

_PATH = re.compile(r"/v2/models/([^/]+)/infer")
_VERSION_PATH = re.compile(r"/v2/models/([^/]+)/versions/([^/]+)/infer")
_ANY_PATH = "/v2"


class InferFastPath:
    """Answers inference requests with small bodies."""

    def __init__(self, inferences: Inferences, raw_inputs: RawInputs) -> None:
        self._inferences = inferences
        self._raw_inputs = raw_inputs
        self._writing: set[asyncio.Future[None]] = set()

    def openers(self) -> list[tuple[str, Opener]]:
        """Return the functions that handle request heads, by route."""
        return [
            ("/v2/models/{model}/infer", self._open),
            ("/v2/models/{model}/versions/{version}/infer", self._open_version),
        ]

    def _open(self, head: RequestHead) -> Begin | None:
        path = _PATH.fullmatch(head.path)
        return None if path is None else self._opened(head, unquote(path[1]), None)

    def _open_version(self, head: RequestHead) -> Begin | None:
        path = _VERSION_PATH.fullmatch(head.path)
        return None if path is None else self._opened(head, unquote(path[1]), unquote(path[2]))

    def _opened(self, head: RequestHead, model: str, version: str | None) -> Begin | None:
        if head.query or self._inferences.record(model) is None:
            return None
        try:
            header_bytes = header_bytes_of(head.headers.get(LENGTH_FIELD))
        except ServiceError:
            return None
        if header_bytes == 0:  # a raw body, for whose shape the executor has to be asked
            return None
        coding = chosen_coding(head.headers.get("accept-encoding", ""))
        return partial(self._begin, model, version, header_bytes, coding)

    def _begin(
        self,
        model: str,
        wanted: str | None,
        header_bytes: int | None,
        coding: str | None,
        body: bytes,
        request_id: str,
        respond: Respond,
    ) -> Pending | None:
        refuse = partial(_refuse, request_id, respond)
        try:
            record = self._inferences.record(model)
            if record is None:
                raise NotFound("model", model)
            found = record
            text, behind = split(body, header_bytes)
            # Read before the version is chosen, which depends on the sequence that it belongs to.
            sound = self._inferences.read_if_sound(text)

            def ask(version: Version) -> Pending:
                return ask_for(version, self._inferences.read(text), behind)

            def ask_for(version: Version, header: InferHeader, behind: memoryview) -> Pending:
                write = self._inferences.writer(found, version.name, header.wish, coding)
                on_outcome = partial(self._on_outcome, write, request_id, respond)
                return self._inferences.ask(found, version, header, behind, on_outcome)

            async def transform_and_ask(header: InferHeader) -> Pending | None:
                try:
                    version = await self._inferences.versions.choose(found, wanted, header.part)
                    header = await with_tensors(self._raw_inputs, found, header, behind)
                    return ask_for(version, header, memoryview(b""))
                except Exception as error:
                    refuse(error)
                    return None

            if sound is not None and has_bytes(sound):
                return Later(transform_and_ask(sound))
            part = None if sound is None else sound.part
            return self._inferences.versions.when_chosen(found, wanted, ask, refuse, part)
        except Exception as error:
            refuse(error)
            return None

    def _on_outcome(
        self, write: Writer, request_id: str, respond: Respond, outcome: Outcome | Exception
    ) -> None:
        if not isinstance(outcome, Outcome):
            _refuse(request_id, respond, outcome)
        elif outcome.outputs.nbytes > FEW_BYTES:
            task = asyncio.ensure_future(_write_beside(write, request_id, respond, outcome))
            self._writing.add(task)  # asyncio itself keeps only weak references to tasks
            task.add_done_callback(self._writing.discard)
        else:
            _write_here(write, request_id, respond, outcome)


def _write_here(write: Writer, request_id: str, respond: Respond, outcome: Outcome) -> None:
    try:
        written = write(outcome)
        body = written.content.whole()
    except Exception as error:
        _refuse(request_id, respond, error)
    else:
        respond(200, written.lines, body)
    finally:
        outcome.release()


async def _write_beside(write: Writer, request_id: str, respond: Respond, outcome: Outcome) -> None:
    lines = b""

    def make() -> Content:
        nonlocal lines
        written = write(outcome)
        lines = written.lines
        return written.content

    try:
        body = await fast_body(make, outcome.release)
    except Exception as error:
        _refuse(request_id, respond, error)
    else:
        respond(200, lines, body)


def _refuse(request_id: str, respond: Respond, error: Exception) -> None:
    answer = error_answer(error, request_id, _ANY_PATH)
    respond(answer.status, answer.lines, answer.body)
