"""Errors of the service; ``app.errors.http`` defines their representation over HTTP.

    ServiceError
    ├── Malformed              400  a body that cannot be read as what it claims to be
    ├── ForeignOrigin          403  a browser asks on behalf of another site
    ├── Misdirected            403  the Host is not a name of this server
    ├── NotFound               404  no such module, job, dataset, checkpoint or file
    ├── MethodNotAllowed       405  the path exists, the verb does not
    ├── TooSlow                408  the request did not arrive in time
    ├── Conflict               409  the request is valid, the current state does not allow it
    │   ├── AlreadyExists           the name is taken
    │   ├── InUse                   something unfinished depends on it
    │   ├── WrongStage              a call before the call it depends on
    │   ├── ParamsLost              the parameters were only in memory and are lost
    │   ├── SequenceLost            the states that a prediction continues do not exist
    │   ├── ModuleFailed            the module could not be restored to its device
    │   ├── IllegalTransition       a job's status does not allow this event
    │   └── Superseded              a message of an attempt that no longer owns its job
    ├── PreconditionFailed     412  another generation or version than the caller named
    ├── TooLarge               413  more bytes, elements or files than allowed
    ├── UnsupportedMedia       415  a content type this path does not read
    ├── RangeBeyondEnd         416  a range beyond the end of the file
    ├── Invalid                422  a field has an invalid value
    │   ├── Damaged                 a file is truncated, altered or has another format
    │   └── IdempotencyMismatch     an Idempotency-Key was used for another request
    ├── HeadersTooLarge        431  more, or longer, header fields than allowed
    ├── UnsupportedCoding      501  a coding of the body that is not supported
    └── Unavailable            503  cannot be answered now; says when to try again
        └── DatabaseDamaged         pages of the database cannot be read

Refusals of an executor, including the engine's, are ``HostError``s with the code of a row of the
table.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from app.errors.quoting import LONGEST_QUOTE, brief, quoted

__all__ = [
    "AlreadyExists",
    "CallTooLong",
    "Conflict",
    "Damaged",
    "DatabaseDamaged",
    "ExecutorGone",
    "ExecutorKilled",
    "FieldError",
    "ForeignOrigin",
    "HeadersTooLarge",
    "HostError",
    "IdempotencyMismatch",
    "IllegalTransition",
    "InUse",
    "Invalid",
    "Malformed",
    "MethodNotAllowed",
    "Misdirected",
    "ModuleFailed",
    "NotFound",
    "OutOfMemory",
    "ParamsLost",
    "PreconditionFailed",
    "RangeBeyondEnd",
    "SequenceLost",
    "ServiceError",
    "StartError",
    "StorageFull",
    "Superseded",
    "TooLarge",
    "TooSlow",
    "Unavailable",
    "UnsupportedCoding",
    "UnsupportedMedia",
    "WrongStage",
    "refined",
]


_MOST_TOLD = 6
"""Invalid fields that the text of an error names."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field of a request.

    Attributes:
        field: where it is, as a path: ``data_shapes[0].shape``.
        got: what was sent, shortened.
        expected: what would have been accepted.
        hint: what to do about it; may be empty.
    """

    field: str
    got: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.field}: got {self.got}, expected {self.expected}"
        return f"{text}; {self.hint}" if self.hint else text


class ServiceError(Exception):
    """Base of all errors that are answers: the message is written for the client to read."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def field_errors(self) -> tuple[FieldError, ...]:
        """Return the invalid fields, for ``errors[]`` of the answer."""
        return ()

    def extensions(self) -> dict[str, Any]:
        """Return members of the answer that only this error has."""
        return {}

    def headers(self) -> dict[str, str]:
        """Return HTTP headers that belong to the answer."""
        return {}


class HostError(Exception):
    """A call was refused by the host, with the code of one row below.

    Attributes:
        code: of the error over HTTP.
        message: for the client to read.
        field_name: the first invalid field, if there is one.
        errors: all invalid fields, as plain ``FieldError`` values, if known.
        extensions: members of the answer that only this error has.
    """

    def __init__(
        self,
        code: str,
        message: str,
        field_name: str | None = None,
        errors: Sequence[Mapping[str, str]] = (),
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field_name = field_name
        self.errors = errors
        self.extensions = extensions or {}

    def to_row(self) -> list[Any]:
        """Return the arguments to recreate it, as plain values."""
        errors, extensions = [dict(one) for one in self.errors], dict(self.extensions)
        return [self.code, self.message, self.field_name, errors, extensions]


class ExecutorGone(Exception):
    """The executor died before it answered; the effect of the call is unknown."""


class ExecutorKilled(ExecutorGone):
    """The executor was killed, or crashed, while it ran this call and no other."""


class CallTooLong(ExecutorKilled):
    """The executor was ended because this call took longer than a call may."""


class StartError(Exception):
    """The server cannot start; the message is written for its operator to read."""


class Malformed(ServiceError):
    """The body cannot be read as the content type it claims: broken JSON, a cut multipart."""


class NotFound(ServiceError):
    """The resource of the path does not exist."""

    def __init__(self, what: str, name: object, hint: str = "") -> None:
        text = f"{what} {str(name)[:LONGEST_QUOTE]!r} does not exist"
        super().__init__(f"{text}; {hint}" if hint else text)
        self.what = what


class MethodNotAllowed(ServiceError):
    """The path exists, the verb does not."""

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not served here; use {allowed or 'another path'}")
        self.allowed = allowed

    def headers(self) -> dict[str, str]:
        """Return ``Allow``."""
        return {"Allow": self.allowed} if self.allowed else {}


class Conflict(ServiceError):
    """The request is well-formed; the current state of its resource does not allow it."""


class AlreadyExists(Conflict):
    """The name is taken."""

    def __init__(self, what: str, name: object, hint: str = "choose another name or delete it"):
        super().__init__(f"{what} {name!r} exists already; {hint}")


class InUse(Conflict):
    """Something unfinished depends on the resource to be changed or deleted."""


class WrongStage(Conflict):
    """A call came before the call it depends on.

    Attributes:
        needs: the stage the call needs.
        is_: the current stage.
        call: what to call first, as verb and path.
    """

    def __init__(self, what: str, *, needs: str, is_: str, call: str) -> None:
        super().__init__(f"{what} needs stage {needs}, the module is {is_}; first call {call}")
        self.needs = needs
        self.is_ = is_
        self.call = call

    def extensions(self) -> dict[str, Any]:
        """Return ``needs``, ``is`` and ``call``, for programs."""
        return {"needs": self.needs, "is": self.is_, "call": self.call}


class ParamsLost(Conflict):
    """A module's parameters were only in memory, and their executor died.

    Args:
        module: its name.
        checkpoints: tags of the existing ones, None if the raiser cannot know.
    """

    def __init__(self, module: str, checkpoints: Sequence[str] | None = None) -> None:
        there = "" if checkpoints is None else f" (there are: {', '.join(checkpoints) or 'none'})"
        path = f"/v1/modules/{module}"
        super().__init__(
            f"the parameters of module {module!r} were changed without a checkpoint and are lost "
            f"with their executor; load a checkpoint{there} by POST {path}/load, or "
            f"start over by POST {path}/params/init or PUT {path}/params; parameters saved by POST "
            f"{path}/checkpoints are never lost"
        )
        self.module = module
        self.checkpoints = list(checkpoints or ())

    def extensions(self) -> dict[str, Any]:
        """Return the tags of the existing checkpoints, for programs."""
        return {"checkpoints": self.checkpoints}


class SequenceLost(Conflict):
    """The states that a prediction continues do not exist: never begun, or lost since."""

    def __init__(self, module: str, sequence_id: str) -> None:
        super().__init__(
            f"sequence {sequence_id!r} of module {module!r} has no states: it was never begun, has "
            "ended, was idle for too long, or its executor died or the module was bound again or "
            "given other parameters since; send it again from its first part, with "
            "sequence_start"
        )
        self.sequence_id = sequence_id

    def extensions(self) -> dict[str, Any]:
        """Return the id."""
        return {"sequence_id": self.sequence_id}


class ModuleFailed(Conflict):
    """A module cannot be restored to its device until the cause is repaired."""

    def __init__(self, module: str, reason: str) -> None:
        super().__init__(
            f"module {module!r} cannot be used: {reason}; when that is fixed, try again by POST "
            f"/v1/modules/{module}/restore, or give it other parameters by POST "
            f"/v1/modules/{module}/load or PUT /v1/modules/{module}/params"
        )
        self.reason = reason

    def extensions(self) -> dict[str, Any]:
        """Return the reason."""
        return {"reason": self.reason}


class IllegalTransition(Conflict):
    """A job's status does not allow this event."""


class Superseded(Conflict):
    """A message of an attempt that no longer owns its job; it is ignored."""


class ForeignOrigin(ServiceError):
    """A browser asks on behalf of a page of another site."""


class TooSlow(ServiceError):
    """The request did not arrive in time."""


class Misdirected(ServiceError):
    """The request names a host that is not a name of this server."""


class HeadersTooLarge(ServiceError):
    """The request's head exceeds a limit.

    Args:
        limit: of the ``unit``, which is in the plural.
        hint: what to do.
    """

    def __init__(self, *, limit: int, unit: str, hint: str) -> None:
        super().__init__(f"the request's head has more than {limit:,} {unit}; {hint}")
        self.limit = limit

    def extensions(self) -> dict[str, Any]:
        """Return the limit."""
        return {"limit": self.limit}


class PreconditionFailed(ServiceError):
    """The caller named a generation or version that is no longer the current one."""

    def __init__(self, what: str, *, got: object, present: object, hint: str) -> None:
        is_ = "none: it does not exist" if present is None else present
        super().__init__(f"{what} is {is_!s}, the request names {got!s}; {hint}")
        self.present = present

    def extensions(self) -> dict[str, Any]:
        """Return the current value, so that a program can continue with it."""
        return {"present": self.present}

    def headers(self) -> dict[str, str]:
        """Return ``ETag`` if that was compared."""
        is_etag = isinstance(self.present, str) and self.present.endswith('"')
        return {"ETag": str(self.present)} if is_etag else {}


class TooLarge(ServiceError):
    """A limit is exceeded; the message names it."""

    def __init__(self, what: str, *, got: int | None, limit: int, setting: str) -> None:
        size = "more" if got is None else f"{got:,}"
        super().__init__(
            f"{what}: got {size}, the limit is {limit:,}; send less or raise {setting}"
        )
        self.limit = limit

    def extensions(self) -> dict[str, Any]:
        """Return the limit."""
        return {"limit": self.limit}


class UnsupportedMedia(ServiceError):
    """The path does not support the content type."""

    def __init__(self, got: str | None, supported: Iterable[str]) -> None:
        super().__init__(f"content type {got!r} is not read here; use {', '.join(supported)}")


class RangeBeyondEnd(ServiceError):
    """``Range`` begins beyond the end of the file.

    Args:
        size: of the file, in bytes.
    """

    def __init__(self, size: int) -> None:
        super().__init__(f"Range asks for what is beyond the end: the file has {size:,} bytes")
        self.size = size

    def headers(self) -> dict[str, str]:
        """Return ``Content-Range``, which contains the length."""
        return {"Content-Range": f"bytes */{self.size}"}


class UnsupportedCoding(ServiceError):
    """The body has a coding that is not supported: of the content, or of the transfer."""

    def __init__(self, got: str, supported: Sequence[str] = (), *, of: str = "content") -> None:
        known = f"use {' or '.join(supported)}, or send" if supported else "send"
        super().__init__(
            f"{of} encoding {brief(got)} is not read here; {known} the body uncompressed"
        )


class Invalid(ServiceError):
    """A field has an invalid value.

    Args:
        field: path of the field, as in ``data_shapes[0].shape``.
        got: the value sent; long ones are shortened.
        expected: what would be accepted.
        hint: what to do, unless that follows from ``expected``.
    """

    def __init__(self, field: str, got: object, expected: str, hint: str = "") -> None:
        self.errors: tuple[FieldError, ...] = (FieldError(field, quoted(got), expected, hint),)
        super().__init__(str(self.errors[0]))

    @classmethod
    def from_errors(cls, errors: Iterable[FieldError]) -> Self:
        """Return one error for several invalid fields; there must be at least one.

        Its message is of the first ones, ``errors`` of all.
        """
        rows = tuple(errors)
        error = cls(rows[0].field, rows[0].got, rows[0].expected, rows[0].hint)
        error.errors = rows
        told = [str(row) for row in rows[:_MOST_TOLD]]
        if len(rows) > _MOST_TOLD:
            told.append(f"and {len(rows) - _MOST_TOLD} more like the last")
        error.message = "; ".join(told)
        error.args = (error.message,)
        return error

    def field_errors(self) -> tuple[FieldError, ...]:
        """Return the invalid fields."""
        return self.errors


class Damaged(Invalid):
    """A file is truncated, altered or not in the format it claims to be."""


class IdempotencyMismatch(Invalid):
    """An ``Idempotency-Key`` was used before for another request."""


class Unavailable(ServiceError):
    """The request cannot be answered now; the same request may succeed later."""

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds

    def headers(self) -> dict[str, str]:
        """Return ``Retry-After`` in whole seconds, at least one."""
        return {"Retry-After": str(max(1, math.ceil(self.retry_after_seconds)))}


class DatabaseDamaged(Unavailable, StartError):
    """Pages of the database are damaged. Its text is for the operator; clients only learn that."""

    def __init__(self, path: Path | None, cause: str) -> None:
        super().__init__("the server's database is damaged; its log tells what to do")
        self.args = (
            f"the database {path} is damaged ({' '.join(cause.split())}): move {path}, {path}-wal "
            f"and {path}-shm away and start again; modules, checkpoints and datasets are then "
            "taken in from the data directory, and only the history of jobs is lost",
        )


class StorageFull(ServiceError):
    """The disk with the data is full, or its quota is used up."""

    def __init__(self) -> None:
        super().__init__(
            "the disk of the server's data is full; delete datasets, checkpoints or modules, or "
            "give it more room, and try again"
        )


class OutOfMemory(ServiceError):
    """A device has no memory for a call or a job, even after releasing all that can be restored."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            f"the device has no memory for {what} ({reason or 'an array was refused'}), although "
            "all idle modules were evicted; send fewer examples at once, save or delete modules "
            "that are in use, or give the server more memory"
        )


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def refined(error: BaseException) -> BaseException:
    """Return our error for an error of the system, or that itself if there is none."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return StorageFull()
    return error
