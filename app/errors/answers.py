"""Error responses: problem details, or under /v2 the Open Inference Protocol's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson
import structlog

from app.errors.http import Problem, to_problem

__all__ = ["ErrorAnswer", "error_answer", "is_of_protocol"]

_log = structlog.get_logger(__name__)

_STATUS_OF_PROTOCOL = {409: 503, 412: 400, 415: 400, 422: 400, 507: 503}
"""Statuses that clients of the protocol expect instead of those of REST."""
_FAULTS_OF_CLIENTS = frozenset({"conflict", "sequence_lost"})
"""Codes with status 409 for which retrying does not help."""


class ErrorAnswer(NamedTuple):
    """The response to a request that failed."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def lines(self) -> bytes:
        """The headers to send."""
        fields = (f"{name.lower()}: {value}\r\n" for name, value in self.headers.items())
        return "".join(fields).encode()


def error_answer(
    error: BaseException, request_id: str, path: str, root_path: str = ""
) -> ErrorAnswer:
    """Return the response for an error; internal errors are logged with their traceback.

    Args:
        path: of the request.
        root_path: what a proxy serves the server under, for the links.
    """
    problem = to_problem(error, request_id, path)
    if problem.status == 500:
        _log.error("request failed", path=path, request_id=request_id, exc_info=error)
    if is_of_protocol(path):
        return _of_protocol(problem)
    headers = {"Content-Type": "application/problem+json"} | problem.headers
    links = {name: root_path + problem.body[name] for name in ("type", "instance")}
    return ErrorAnswer(problem.status, headers, orjson.dumps(problem.body | links))


def is_of_protocol(path: str) -> bool:
    """Return whether a path belongs to the Open Inference Protocol."""
    return path == "/v2" or path.startswith("/v2/")


def _of_protocol(problem: Problem) -> ErrorAnswer:
    status = _STATUS_OF_PROTOCOL.get(problem.status, problem.status)
    if problem.body["code"] in _FAULTS_OF_CLIENTS:
        status = 400
    fields = (
        f"{row['field']}: got {row['got']}, expected {row['expected']}"
        + (f"; {row['hint']}" if row["hint"] else "")
        for row in problem.body["errors"]
    )
    text = "; ".join(fields) or problem.body["detail"]
    headers = {"Content-Type": "application/json"} | problem.headers
    if status == 503 and problem.status != 503:  # it was a 409 or 507, which have no such field
        headers["Retry-After"] = "1"
    return ErrorAnswer(status, headers, orjson.dumps({"error": text}))
