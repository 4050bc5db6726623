"""Translates errors of the engine and the service into refusals that name the field at fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.errors.http import error_code
from app.errors.tree import HostError, ServiceError, refined
from core import errors
from core.errors import MXNetError, StageError, UsageError

__all__ = [
    "ENGINE_CODES",
    "as_refusals",
    "client_fault",
    "engine_code",
    "refusal_of",
    "to_host_error",
]

ENGINE_CODES: Mapping[type[MXNetError], str] = {
    MXNetError: "engine",
    errors.GraphError: "invalid_graph",
    errors.UnknownOperator: "unknown_operator",
    errors.AttributeValueError: "invalid_attribute",
    errors.ShapeError: "invalid_shape",
    errors.TypeInferenceError: "invalid_dtype",
    errors.FormatError: "damaged",
    StageError: "wrong_stage",
    errors.DeviceError: "invalid_device",
    errors.KernelError: "kernel_failed",
}
"""Codes of the engine's errors; a class that is not listed has the code of its nearest base."""


def engine_code(error: MXNetError) -> str:
    """Return the code under which ``app.errors.http`` knows an error of the engine."""
    return next(ENGINE_CODES[base] for base in type(error).__mro__ if base in ENGINE_CODES)


@contextmanager
def client_fault(field: str) -> Iterator[None]:
    """Refuse a value of the client's that the engine rejects.

    Every ValueError, TypeError and RuntimeError in the block becomes a HostError for this field, so
    the block must contain nothing that could raise them for another reason.
    """
    try:
        yield
    except ServiceError:
        raise
    except StageError as error:  # the call came too early; the value may be fine
        raise HostError(engine_code(error), _text(error)) from error
    except UsageError as error:
        raise HostError("invalid", _of_field(field, error), field) from error
    except MXNetError as error:
        raise HostError(engine_code(error), _text(error), field) from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise HostError("invalid", _of_field(field, error), field) from error


@contextmanager
def as_refusals() -> Iterator[None]:
    """Raise the block's errors as HostErrors where they are the caller's to handle."""
    try:
        yield
    except (ServiceError, MXNetError, OSError) as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        try:
            raise refusal from error
        finally:
            del refusal  # see refusal_of


def refusal_of(error: BaseException) -> HostError | None:
    """Return the refusal for an error; None if the error is a defect of the server.

    Callers must not bind the result to a variable that outlives raising it: their frame is in its
    traceback, and the cycle would keep the locals of all frames below alive until the garbage
    collector runs.
    """
    known = refined(error)
    return to_host_error(known) if isinstance(known, ServiceError | MXNetError) else None


def to_host_error(error: ServiceError | MXNetError) -> HostError:
    """Return the refusal for an error that the caller can handle."""
    if isinstance(error, MXNetError):
        return HostError(engine_code(error), _text(error))
    rows = [dataclasses.asdict(row) for row in error.field_errors()]
    field = rows[0]["field"] if rows else None
    return HostError(error_code(error), error.message, field, rows, error.extensions())


def _of_field(field: str, error: BaseException) -> str:
    """Return an error's message, prefixed with the field unless it already starts with it."""
    text = _text(error)
    return text if text.startswith(f"{field}: ") else f"{field}: {text}"


def _text(error: BaseException) -> str:
    """Return an error's message with its notes, which say where in the graph it arose."""
    notes: list[str] = getattr(error, "__notes__", [])
    return "; ".join([str(error) or type(error).__name__, *notes])
