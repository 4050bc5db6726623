"""What the server's refusals are in Python.

::

    ClientError                    the server refused a call
    ├── BadRequest                 400: the request cannot be read; and all 4xx that are not below
    ├── Unauthorized               401: no key, or none that is known
    ├── Forbidden                  403: the key may not do this
    ├── NotFound                   404: there is no such thing
    ├── Conflict                   409: not as things are now: wrong stage, name taken, in use
    ├── PreconditionFailed         412: it changed since: another generation, another ETag
    ├── TooLarge                   413: more than the server takes
    ├── UnsupportedMedia           415: a type of body that is not taken there
    ├── Invalid                    422: a field is wrong; ``errors`` says which
    ├── TooManyRequests            429: more than the key may ask; ``retry_after_seconds``
    └── ServerError                500: the server's fault; and all 5xx that are not below
        └── Unavailable            503: not at present; ``retry_after_seconds``

A server that is not reached raises httpx's errors, all of them ``httpx.TransportError``.
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


class ClientError(Exception):
    """The server refused a call.

    Attributes:
        status: HTTP status.
        problem: the body of the answer, as of RFC 9457.
        retry_after_seconds: when the server wants to be asked again, if it says so.
    """

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(status, problem, retry_after_seconds)
        self.status = status
        self.problem = problem
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.detail}"

    @property
    def code(self) -> str:
        """Of the error, as ``Client.error_code`` explains it; empty of what is not a problem."""
        return str(self.problem.get("code", ""))

    @property
    def detail(self) -> str:
        """What is wrong."""
        return str(self.problem.get("detail", ""))

    @property
    def errors(self) -> list[FieldFault]:
        """The fields that are wrong, each with what was got and what is expected."""
        return list(self.problem.get("errors") or ())

    @property
    def request_id(self) -> str | None:
        """Of the request, as in the server's log."""
        return self.problem.get("request_id")


class BadRequest(ClientError):
    """The request cannot be read."""


class Unauthorized(ClientError):
    """There is no key, or none that is known."""


class Forbidden(ClientError):
    """The key may not do this."""


class NotFound(ClientError):
    """There is no such thing."""


class Conflict(ClientError):
    """It cannot be done as things are now."""


class PreconditionFailed(ClientError):
    """It changed since it was looked at."""


class TooLarge(ClientError):
    """It is more than the server takes."""


class UnsupportedMedia(ClientError):
    """The body is of a type that is not taken there."""


class Invalid(ClientError):
    """A field is wrong."""


class TooManyRequests(ClientError):
    """The key asks for more than it may."""


class ServerError(ClientError):
    """The server is at fault."""


class Unavailable(ServerError):
    """The server cannot do it at present."""


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
    """Return the error that an answer, whose body was read, stands for."""
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
    """Return in how many seconds the server wants to be asked again, if it says so."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdigit() else None
