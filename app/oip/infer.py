"""``POST /v2/models/{model}/infer`` with a small body: from its bytes to those of its answer."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from urllib.parse import unquote

from app.error_answers import error_answer
from app.errors import NotFound, ServiceError
from app.exchanges import Begin, Pending, RequestHead, Respond
from app.link.client import Outcome
from app.oip.codings import chosen_coding
from app.oip.inference import FEW_BYTES, LENGTH_FIELD, Inferences, Writer, header_bytes_of, split
from app.oip.versions import check_version

__all__ = ["InferLane"]

_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?/infer")
_ANY_PATH = "/v2"


class InferLane:
    """Answers infer requests whose bodies are small."""

    def __init__(self, inferences: Inferences) -> None:
        self._inferences = inferences
        self._writing: set[asyncio.Future[None]] = set()

    def open(self, head: RequestHead) -> Begin | None:
        """Return how requests with a head are answered; None where they go to the router."""
        path = _PATH.fullmatch(head.path)
        if path is None or head.query:
            return None
        model, version = unquote(path[1]), path[2] and unquote(path[2])
        record = self._inferences.record(model)
        if record is None:
            return None
        try:
            version = check_version(record, version)
            header_bytes = header_bytes_of(head.headers.get(LENGTH_FIELD))
        except ServiceError:
            return None
        if header_bytes == 0:
            return None
        coding = chosen_coding(head.headers.get("accept-encoding", ""))
        return partial(self._begin, model, version, header_bytes, coding)

    def _begin(
        self,
        model: str,
        version: str,
        header_bytes: int | None,
        coding: str | None,
        body: bytes,
        request_id: str,
        respond: Respond,
    ) -> Pending | None:
        try:
            text, behind = split(body, header_bytes)
            header = self._inferences.read(text)
            record = self._inferences.record(model)
            if record is None:
                raise NotFound("model", model)
            write = self._inferences.writer(record, version, header.wish, coding)
            on_outcome = partial(self._on_outcome, write, request_id, respond)
            return self._inferences.ask(record, header, behind, on_outcome)
        except Exception as error:
            _refuse(error, request_id, respond)
            return None

    def _on_outcome(
        self, write: Writer, request_id: str, respond: Respond, outcome: Outcome | Exception
    ) -> None:
        if not isinstance(outcome, Outcome):
            _refuse(outcome, request_id, respond)
        elif outcome.outputs.nbytes > FEW_BYTES:
            task = asyncio.ensure_future(_write_beside(write, request_id, respond, outcome))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        else:
            _write_here(write, request_id, respond, outcome)


def _write_here(write: Writer, request_id: str, respond: Respond, outcome: Outcome) -> None:
    try:
        written = write(outcome)
    except Exception as error:
        _refuse(error, request_id, respond)
    else:
        respond(200, written.lines, bytes(written.content))
    finally:
        outcome.release()


async def _write_beside(write: Writer, request_id: str, respond: Respond, outcome: Outcome) -> None:
    try:
        written = await asyncio.to_thread(write, outcome)
        content = bytes(written.content)
    except Exception as error:
        _refuse(error, request_id, respond)
    else:
        respond(200, written.lines, content)
    finally:
        outcome.release()


def _refuse(error: Exception, request_id: str, respond: Respond) -> None:
    answer = error_answer(error, request_id, _ANY_PATH)
    respond(answer.status, answer.lines, answer.body)
