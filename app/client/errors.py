"""Exceptions for the server's error responses.

::

    ClientError                    the server refused a call
    ├── BadRequest                 400: the request is malformed; and all 4xx not listed below
    ├── Unauthorized               401: no API key, or an unknown one
    ├── Forbidden                  403: the key does not allow this
    ├── NotFound                   404: the resource does not exist
    ├── Conflict                   409: not possible now: wrong stage, name taken, in use
    ├── PreconditionFailed         412: it has changed: another generation, another ETag
    ├── TooLarge                   413: over a limit of the server
    ├── UnsupportedMedia           415: the body has an unsupported media type
    ├── Invalid                    422: a field is invalid; ``errors`` says which
    ├── TooManyRequests            429: over the key's rate; ``retry_after_seconds``
    └── ServerError                500: an error in the server; and all 5xx not listed below
        └── Unavailable            503: temporarily unavailable; ``retry_after_seconds``

If the server cannot be reached, httpx raises a subclass of ``httpx.TransportError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from app.client.results import FieldFault

__all__ = [
    "BadRequest",
    "ClientError",
    "Conflict",
    "Forbidden",
    "Invalid",
    "InvalidKey",
    "NotFound",
    "PreconditionFailed",
    "ServerError",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnsupportedMedia",
    "refusal",
    "retry_after",
]


class InvalidKey(ValueError):
    """What is given as an API key cannot be one."""


class ClientError(Exception):
    """The server refused a call.

    Attributes:
        status: HTTP status.
        problem: the body of the response, an RFC 9457 problem.
        retry_after_seconds: how long the server asks to wait before a retry, if it says so.
    """

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        retry_after_seconds: float | None = None,
    ) -> None:
        # All arguments, from which pickle makes the exception again in another process.
        super().__init__(status, problem, retry_after_seconds)
        self.status = status
        self.problem = problem
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.detail}"

    @property
    def code(self) -> str:
        """The error's code, see ``Client.error_code``; empty if the body is not a problem."""
        return str(self.problem.get("code", ""))

    @property
    def detail(self) -> str:
        """What went wrong."""
        return str(self.problem.get("detail", ""))

    @property
    def errors(self) -> list[FieldFault]:
        """The invalid fields, each with the value got and what is expected."""
        return list(self.problem.get("errors") or ())

    @property
    def request_id(self) -> str | None:
        """The id of the request in the server's log."""
        return self.problem.get("request_id")


class BadRequest(ClientError):
    """The request is malformed."""


class Unauthorized(ClientError):
    """There is no API key, or an unknown one."""


class Forbidden(ClientError):
    """The API key does not allow this."""


class NotFound(ClientError):
    """The resource does not exist."""


class Conflict(ClientError):
    """The call is not possible in the current state."""


class PreconditionFailed(ClientError):
    """The resource has changed since it was read."""


class TooLarge(ClientError):
    """The request is over a limit of the server."""


class UnsupportedMedia(ClientError):
    """The body has a media type that is not supported there."""


class Invalid(ClientError):
    """A field is invalid."""


class TooManyRequests(ClientError):
    """The API key has exceeded its rate."""


class ServerError(ClientError):
    """An error in the server."""


class Unavailable(ServerError):
    """The server is temporarily unavailable."""


_BY_STATUS: Mapping[int, type[ClientError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    415: UnsupportedMedia,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}


def refusal(response: httpx.Response) -> ClientError:
    """Return the exception for an error response whose body has been read."""
    status = response.status_code
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": response.text[:500]}
    kind = _BY_STATUS.get(status) or (ServerError if status >= 500 else BadRequest)
    return kind(status, problem, retry_after(response))


def retry_after(response: httpx.Response) -> float | None:
    """Return after how many seconds the server allows a retry, if it says so."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdigit() else None
