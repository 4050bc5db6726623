"""From what the engine and the service raise to refusals that name the field at fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import ServiceError, error_code
from app.worker.client import HostError
from core.errors import MXNetError, StageError, UsageError

__all__ = ["client_fault", "to_host_error"]


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
        raise HostError(error_code(error), _text(error)) from error
    except UsageError as error:
        raise HostError("invalid", _of_field(field, error), field) from error
    except MXNetError as error:
        raise HostError(error_code(error), _text(error), field) from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise HostError("invalid", _of_field(field, error), field) from error


def to_host_error(error: ServiceError | MXNetError) -> HostError:
    """Return the refusal for an error that is an answer."""
    if isinstance(error, MXNetError):
        return HostError(error_code(error), _text(error))
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
