"""The table of errors over HTTP, and the conversion of errors to answers.

An error without a row is a bug: a 500 that only tells the client the request id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.errors.database import DiskFailed, RowDamaged
from app.errors.redaction import redacted
from app.errors.refusals import Forbidden, TooManyRequests, Unauthorized
from app.errors.tree import (
    AlreadyExists,
    CallTooLong,
    Conflict,
    Damaged,
    DatabaseDamaged,
    ExecutorGone,
    FieldError,
    ForeignOrigin,
    HeadersTooLarge,
    HostError,
    IdempotencyMismatch,
    IllegalTransition,
    InUse,
    Invalid,
    Malformed,
    MethodNotAllowed,
    Misdirected,
    ModuleFailed,
    NotFound,
    OutOfMemory,
    ParamsLost,
    PreconditionFailed,
    RangeBeyondEnd,
    SequenceLost,
    ServiceError,
    StorageFull,
    Superseded,
    TooLarge,
    TooSlow,
    Unavailable,
    UnsupportedCoding,
    UnsupportedMedia,
    WrongStage,
    refined,
)
from app.errors.versions import VersionDamaged
from app.folder_names import without_folder_names

__all__ = [
    "ENGINE_KINDS",
    "ERROR_TABLE",
    "HOST_KINDS",
    "ErrorKind",
    "Problem",
    "all_kinds",
    "error_code",
    "error_kind",
    "to_problem",
]


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """The representation of an error class over HTTP.

    Attributes:
        status, code, title: as answered.
        expected, hint: for a field that the engine refuses, whose message says what it got.
        is_listed: False for errors that no answer under /v1 has: executors and services handle them
            internally, or the Open Inference Protocol reports them as text.
    """

    status: int
    code: str
    title: str
    expected: str = ""
    hint: str = ""
    is_listed: bool = True


ERROR_TABLE: Mapping[type[BaseException], ErrorKind] = {
    Malformed: ErrorKind(400, "malformed", "The body cannot be read"),
    Unauthorized: ErrorKind(401, "unauthorized", "A valid API key is needed"),
    Forbidden: ErrorKind(403, "forbidden", "The API key lacks the scope"),
    ForeignOrigin: ErrorKind(403, "foreign_origin", "Requests from other sites' pages are refused"),
    Misdirected: ErrorKind(403, "misdirected", "The host is not served here"),
    NotFound: ErrorKind(404, "not_found", "Not found"),
    MethodNotAllowed: ErrorKind(405, "method_not_allowed", "Method not allowed"),
    TooSlow: ErrorKind(408, "too_slow", "The request did not arrive in time"),
    Conflict: ErrorKind(409, "conflict", "The current state does not allow it"),
    AlreadyExists: ErrorKind(409, "already_exists", "The name is taken"),
    InUse: ErrorKind(409, "in_use", "Something unfinished depends on it"),
    WrongStage: ErrorKind(409, "wrong_stage", "Another call must come first"),
    ParamsLost: ErrorKind(409, "params_lost", "The parameters are lost"),
    SequenceLost: ErrorKind(409, "sequence_lost", "The states of the sequence are lost"),
    ModuleFailed: ErrorKind(409, "module_failed", "The module cannot be restored"),
    IllegalTransition: ErrorKind(409, "illegal_transition", "The job's status does not allow it"),
    Superseded: ErrorKind(
        409, "superseded", "Another attempt has claimed the job", is_listed=False
    ),
    PreconditionFailed: ErrorKind(412, "precondition_failed", "The state has moved on"),
    TooLarge: ErrorKind(413, "too_large", "Over the limit"),
    UnsupportedMedia: ErrorKind(415, "unsupported_media_type", "The content type is not supported"),
    RangeBeyondEnd: ErrorKind(416, "range_not_satisfiable", "Beyond the end of the file"),
    Invalid: ErrorKind(
        *(422, "invalid", "A field has an invalid value"),
        expected="a valid value of the field",
        hint="correct the value as the message says",
    ),
    Damaged: ErrorKind(422, "damaged", "A file is damaged or has another format"),
    IdempotencyMismatch: ErrorKind(
        422, "idempotency_mismatch", "The Idempotency-Key was used for another request"
    ),
    TooManyRequests: ErrorKind(429, "too_many_requests", "The API key's rate limit is exceeded"),
    HeadersTooLarge: ErrorKind(431, "headers_too_large", "Header fields exceed the limit"),
    UnsupportedCoding: ErrorKind(
        501, "unsupported_coding", "The coding of the body is not supported"
    ),
    Unavailable: ErrorKind(503, "unavailable", "Temporarily unavailable"),
    DatabaseDamaged: ErrorKind(503, "unavailable", "Temporarily unavailable"),
    DiskFailed: ErrorKind(503, "unavailable", "Temporarily unavailable"),
    RowDamaged: ErrorKind(503, "unavailable", "Temporarily unavailable"),
    VersionDamaged: ErrorKind(503, "version_damaged", "The version's checkpoint is damaged"),
    StorageFull: ErrorKind(507, "storage_full", "The server's disk is full"),
    OutOfMemory: ErrorKind(507, "out_of_memory", "The device is out of memory"),
    CallTooLong: ErrorKind(504, "call_too_long", "The call took too long"),
    ExecutorGone: ErrorKind(503, "executor_gone", "The executor does not answer"),
}
"""Every error that can be an answer. A class without a row uses that of its nearest base class."""

ENGINE_KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        *(422, "engine", "The engine refused the request"),
        expected="what the engine can run",
        hint="correct what the detail names",
    ),
    ErrorKind(
        *(422, "invalid_graph", "The symbol is not a valid graph"),
        expected="a symbol in MXNet's JSON, whose nodes read earlier nodes",
        hint="save it again with Symbol.save or Symbol.tojson",
    ),
    ErrorKind(
        *(422, "unknown_operator", "An operator is unknown"),
        expected="operators of MXNet 1.9.1 that are supported here",
        hint="correct the op of the nodes named, or name in outputs what the rest of the network "
        "computes; 'modserve doctor' lists all unknown operators of a model",
    ),
    ErrorKind(
        *(422, "invalid_attribute", "An operator attribute has an invalid value"),
        expected="attributes of the operator, spelled as in MXNet",
        hint="correct the attribute of the node named",
    ),
    ErrorKind(
        *(422, "invalid_shape", "Shapes contradict each other"),
        expected="shapes that are consistent throughout the graph",
        hint="correct the shape given for the input, or the attributes of the node named",
    ),
    ErrorKind(
        *(422, "invalid_dtype", "Dtypes contradict each other"),
        expected="dtypes that are consistent throughout the graph",
        hint="give the input the dtype that the node named expects, or put a Cast between",
    ),
    ErrorKind(
        *(422, "damaged", "A file is damaged or has another format"),
        expected="a complete file, as written by MXNet",
        hint="write it again with MXNet or modserve, and upload it",
    ),
    ErrorKind(
        *(422, "invalid_device", "The device does not exist"),
        expected="a device of this machine",
        hint="GET /v1/executors lists the devices",
    ),
    ErrorKind(
        *(422, "kernel_failed", "The device's library failed to compute it"),
        expected="shapes that the library can compute",
        hint="use smaller shapes, or fewer inputs of the operator that the message names",
    ),
)
"""Errors of the engine; ``app.executor.faults`` maps its exceptions to them."""

HOST_KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(503, "not_resident", "The module is being moved"),
    ErrorKind(503, "version_not_loaded", "The version is being loaded"),
    ErrorKind(503, "version_replaced", "The version's checkpoint was just replaced"),
    ErrorKind(503, "timed_out", "Not computed in time", is_listed=False),
    ErrorKind(409, "would_change", "The module must be marked first", is_listed=False),
)
"""Errors of executors that the services handle; clients see them only if that fails."""

_INTERNAL = ErrorKind(500, "internal", "An error of the server")
_BY_CODE = {kind.code: kind for kind in (*ERROR_TABLE.values(), *ENGINE_KINDS, *HOST_KINDS)}


@dataclass(frozen=True, slots=True)
class Problem:
    """An RFC 9457 answer: status, headers and the body of ``application/problem+json``."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def all_kinds() -> list[ErrorKind]:
    """Return each kind of answer under /v1 once, by status."""
    kinds = {kind.code: kind for kind in (*_BY_CODE.values(), _INTERNAL) if kind.is_listed}
    return sorted(kinds.values(), key=lambda kind: kind.status)


def error_kind(error: BaseException) -> ErrorKind:
    """Return the row of an error: by its code for a ``HostError``, else by its class."""
    if isinstance(error, HostError):
        return _BY_CODE.get(error.code, _INTERNAL)
    for base in type(error).__mro__:  # nearest class first
        if base in ERROR_TABLE:
            return ERROR_TABLE[base]
    return _INTERNAL


def error_code(error: BaseException) -> str:
    """Return the code of an error, which an executor sends in a ``HostError``."""
    return error.code if isinstance(error, HostError) else error_kind(error).code


def to_problem(error: BaseException, request_id: str, instance: str) -> Problem:
    """Convert an error to the answer.

    Args:
        error: the exception.
        request_id: the id under which the log has the details.
        instance: path of the request.
    """
    error = refined(error)
    kind = error_kind(error)
    body: dict[str, Any] = {
        "type": f"/v1/errors/{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": _shown(_detail(error, kind)),
        "instance": redacted(instance),
        "code": kind.code,
        "request_id": request_id,
        "errors": [
            {
                "field": _shown(row.field),
                "got": _shown(row.got),
                "expected": without_folder_names(row.expected),
                "hint": without_folder_names(row.hint),
            }
            for row in _field_errors(error)
        ],
    }
    if isinstance(error, ServiceError):
        return Problem(kind.status, body | error.extensions(), error.headers())
    if isinstance(error, HostError) and kind is not _INTERNAL:
        body |= error.extensions
    retry = {"Retry-After": "1"} if kind.status == 503 else {}
    return Problem(kind.status, body, retry)


def _shown(text: str) -> str:
    return redacted(without_folder_names(text))


def _detail(error: BaseException, kind: ErrorKind) -> str:
    if kind is _INTERNAL:
        return "The server failed; its log has the details under this request_id"
    if isinstance(error, ServiceError | HostError):
        return error.message
    return str(error) or kind.title


def _field_errors(error: BaseException) -> tuple[FieldError, ...]:
    if isinstance(error, ServiceError):
        return error.field_errors()
    if not isinstance(error, HostError) or error_kind(error) is _INTERNAL:
        return ()
    if error.errors:
        return tuple(FieldError(**row) for row in error.errors)
    if not error.field_name:
        return ()
    kind = error_kind(error)
    # The engine's messages say what is wrong in one sentence, often after the field's name.
    got = error.message.removeprefix(f"{error.field_name}: ")
    return (FieldError(error.field_name, got, kind.expected, kind.hint),)
