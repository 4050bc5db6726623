"""From what the engine and the service raise to refusals that name the field at fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from app.error_table import error_code
from app.errors import HostError, ServiceError, refined
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
"""The code of each error of the engine; a class without one takes that of its nearest base."""


def engine_code(error: MXNetError) -> str:
    """Return the code under which ``app.error_table`` knows an error of the engine."""
    return next(ENGINE_CODES[base] for base in type(error).__mro__ if base in ENGINE_CODES)


@contextmanager
def client_fault(field: str) -> Iterator[None]:
    """Refuse a value of the client's that the engine does not take.

    Within the block nothing but the client's value may be the cause of a ValueError, TypeError or
    RuntimeError: all become a HostError for this field.
    """
    try:
        yield
    except ServiceError:
        raise
    except StageError as error:  # no value is at fault, but its time
        raise HostError(engine_code(error), _text(error)) from error
    except UsageError as error:
        raise HostError("invalid", _of_field(field, error), field) from error
    except MXNetError as error:
        raise HostError(engine_code(error), _text(error), field) from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise HostError("invalid", _of_field(field, error), field) from error


@contextmanager
def as_refusals() -> Iterator[None]:
    """Raise a HostError for each error within the block that is an answer."""
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
    """Return the refusal for an error, None if it is not an answer but a fault of ours.

    Callers keep no name for the error that this takes for it: a frame that had one would be in its
    traceback, and all that the frames below hold would live until the collector runs.
    """
    known = refined(error)
    return to_host_error(known) if isinstance(known, ServiceError | MXNetError) else None


def to_host_error(error: ServiceError | MXNetError) -> HostError:
    """Return the refusal for an error that is an answer."""
    if isinstance(error, MXNetError):
        return HostError(engine_code(error), _text(error))
    rows = [dataclasses.asdict(row) for row in error.field_errors()]
    field = rows[0]["field"] if rows else None
    return HostError(error_code(error), error.message, field, rows, error.extensions())


def _of_field(field: str, error: BaseException) -> str:
    """Return an error's message, after the field unless it begins with that itself."""
    text = _text(error)
    return text if text.startswith(f"{field}: ") else f"{field}: {text}"


def _text(error: BaseException) -> str:
    """Return an error's message with its notes, which say where in the graph it arose."""
    notes: list[str] = getattr(error, "__notes__", [])
    return "; ".join([str(error) or type(error).__name__, *notes])
