"""Errors as the protocol has them: an object with one member, ``error``."""

from __future__ import annotations

import orjson
import structlog

from app.error_table import to_problem

__all__ = ["oip_problem"]

_log = structlog.get_logger(__name__)

_STATUS = {409: 503, 415: 400, 421: 421, 422: 400, 507: 503}
"""Where the protocol's clients expect another status than REST has."""


def oip_problem(error: BaseException, request_id: str) -> tuple[int, bytes, bytes]:
    """Return status, header lines and body of the answer to an error."""
    problem = to_problem(error, request_id, "")
    if problem.status == 500:
        _log.error("request failed", request_id=request_id, exc_info=error)
    status = _STATUS.get(problem.status, problem.status)
    fields = (
        f"{row['field']}: got {row['got']}, expected {row['expected']}"
        for row in problem.body["errors"]
    )
    text = "; ".join(fields) or problem.body["detail"]
    lines = [b"content-type: application/json\r\n"]
    if status == 503:
        lines.append(b"retry-after: 1\r\n")
    return status, b"".join(lines), orjson.dumps({"error": text})
