"""Error responses that a connection sends instead of the application, before it is closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.api.middleware import new_request_id
from app.errors.answers import error_answer
from app.errors.tree import ServiceError

__all__ = ["RefusingApp", "refusal"]


Fields: TypeAlias = Sequence[tuple[bytes, bytes]]


class RefusingApp:
    """An application that answers every request with the same error."""

    def __init__(self, error: ServiceError, target: bytes, root_path: str, fields: Fields) -> None:
        """Prepare; see ``refusal``."""
        self._error = error
        self._target = target
        self._root_path = root_path
        self._fields = fields

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse one request."""
        status, headers, body = _answer(self._error, self._target, self._root_path)
        headers += self._fields
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def refusal(error: ServiceError, target: bytes, root_path: str, fields: Fields) -> bytes:
    """Return the bytes of an error response to a request that no application sees.

    Args:
        target: of the request, without the root path.
        root_path: the sub-path that the server is mounted under.
        fields: what every answer to the request has.
    """
    status, headers, body = _answer(error, target, root_path)
    lines = b"".join(b"%s: %s\r\n" % field for field in (*headers, *fields))
    return b"".join([STATUS_LINE[status], lines, b"\r\n", body])


def _answer(
    error: ServiceError, target: bytes, root_path: str
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    path = target.partition(b"?")[0].decode("latin-1")
    request_id = new_request_id()
    answer = error_answer(error, request_id, path, root_path)
    headers = [
        (b"x-request-id", request_id.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        (b"connection", b"close"),
        *((name.lower().encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    return answer.status, headers, answer.body
