"""``POST /v2/models/{name}/infer``: from the bytes of a request to those of its answer."""

from __future__ import annotations

import re
import time
from functools import partial
from urllib.parse import unquote

from app.errors import Invalid, Malformed
from app.exchanges import Begin, Pending, RequestHead, Respond
from app.link.client import Outcome
from app.oip.infer_answer import Answers
from app.oip.infer_request import InferHeader, read_header
from app.oip.problems import oip_problem
from app.services.predictions import Predictions

__all__ = ["InferLane"]

_PATH = re.compile(r"/v2/models/([^/]+)/infer")
_MOST_KNOWN = 4096
_LIVE = "live"


class InferLane:
    """Answers infer requests whose bodies are small."""

    def __init__(self, predictions: Predictions) -> None:
        self._predictions = predictions
        self._headers: dict[bytes, InferHeader] = {}
        self._answers: dict[str, Answers] = {}

    def open(self, head: RequestHead) -> Begin | None:
        """Return how requests with a head are answered; None where they go to the router."""
        path = _PATH.fullmatch(head.path)
        if path is None or head.query or not _takes_plain(head.headers.get("accept-encoding", "")):
            return None
        name = unquote(path[1])
        if self._predictions.record(name) is None:
            return None
        length = head.headers.get("inference-header-content-length")
        if length is not None and not (length.isascii() and length.isdecimal() and length != "0"):
            return None
        return partial(self._begin, name, None if length is None else int(length))

    def _begin(
        self, name: str, length: int | None, body: bytes, request_id: str, respond: Respond
    ) -> Pending | None:
        try:
            return self._ask(name, length, body, request_id, respond)
        except Exception as error:
            respond(*oip_problem(error, request_id))
            return None

    def _ask(
        self, name: str, length: int | None, body: bytes, request_id: str, respond: Respond
    ) -> Pending:
        if length is not None and length > len(body):
            raise Malformed(
                f"Inference-Header-Content-Length is {length}, the body has {len(body)} bytes"
            )
        header = self._header(body[:length])
        pieces = header.pieces(memoryview(body)[len(body) if length is None else length :])
        record = self._predictions.record(name)
        if record is None:
            raise Malformed(f"model {name!r} was deleted")
        target = self._predictions.target(record, header.rows)
        deadline = time.monotonic() + header.timeout_us * 1e-6 if header.timeout_us else 0.0

        def on_outcome(outcome: Outcome | Exception) -> None:
            if not isinstance(outcome, Outcome):
                respond(*oip_problem(outcome, request_id))
                return
            try:
                lines, content = self._answers_of(name).write(outcome, header.wish)
            except Invalid as error:
                respond(*oip_problem(error, request_id))
            else:
                respond(200, lines, content)
            finally:
                outcome.release()

        return self._predictions.ask(
            *(record, target, pieces, on_outcome), deadline=deadline, priority=header.priority
        )

    def _header(self, text: bytes) -> InferHeader:
        """Read a header; one without numbers and without an id is likely to come again."""
        header = self._headers.get(text)
        if header is None:
            header = read_header(text)
            if not header.inline and not header.wish.request_id:
                if len(self._headers) >= _MOST_KNOWN:
                    self._headers.clear()
                self._headers[text] = header
        return header

    def _answers_of(self, name: str) -> Answers:
        answers = self._answers.get(name)
        if answers is None:
            answers = self._answers[name] = Answers(name, _LIVE)
        return answers


def _takes_plain(accept_encoding: str) -> bool:
    """Tell whether an answer may come uncompressed, as small ones do."""
    return "q=0" not in accept_encoding.replace(" ", "")
