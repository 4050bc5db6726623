"""Filters of lists: query parameters that take one value or several."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias, TypeVar

from fastapi import Query
from pydantic import AwareDatetime, BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from app.domain.dataset import DatasetKind
from app.domain.events import EVENT_TYPES, EventType
from app.domain.job import JobKind, JobStatus
from app.domain.module import ModuleKind, Stage
from app.domain.restoration import ModuleState
from app.link.supervisor import ExecutorState

__all__ = [
    "ALL",
    "CreatedAfter",
    "CreatedBefore",
    "DatasetKinds",
    "EventTypes",
    "ExecutorNames",
    "ExecutorStates",
    "JobIds",
    "JobKinds",
    "JobStatuses",
    "ModuleKinds",
    "ModuleNames",
    "ModuleStates",
    "Prefix",
    "Stages",
    "seconds_of",
]

T = TypeVar("T")

ALL: list[Any] = []
"""The default of a parameter that takes several values."""

_SEVERAL = "Several are separated by commas, or the parameter is repeated."


def _split(values: Any) -> Any:
    if not isinstance(values, list):
        return values
    return [part.strip() for value in values for part in str(value).split(",")]


Several: TypeAlias = Annotated[list[T], BeforeValidator(_split), Field(max_length=100)]

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _check_moment(value: Any) -> Any:
    if isinstance(value, str) and not _MOMENT.fullmatch(value):
        example = "2026-11-22T19:52:00Z"
        raise PydanticCustomError("moment", f"a datetime with its timezone, as {example}")
    return value


Moment: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_check_moment)]

ModuleKinds = Annotated[Several[ModuleKind], Query(description=f"Of these kinds. {_SEVERAL}")]
Stages = Annotated[Several[Stage], Query(description=f"At these stages. {_SEVERAL}")]
ModuleStates = Annotated[Several[ModuleState], Query(description=f"In these states. {_SEVERAL}")]
ExecutorNames = Annotated[Several[str], Query(description=f"On these executors. {_SEVERAL}")]
ExecutorStates = Annotated[
    Several[ExecutorState], Query(description=f"In these states. {_SEVERAL}")
]
ModuleNames = Annotated[Several[str], Query(description=f"Of these modules. {_SEVERAL}")]
JobStatuses = Annotated[Several[JobStatus], Query(description=f"With these statuses. {_SEVERAL}")]
JobKinds = Annotated[Several[JobKind], Query(description=f"Of these kinds. {_SEVERAL}")]
JobIds = Annotated[
    Several[Annotated[int, Field(ge=1, lt=2**63)]],
    Query(description=f"Of these jobs. {_SEVERAL}"),
]
DatasetKinds = Annotated[Several[DatasetKind], Query(description=f"Of these kinds. {_SEVERAL}")]


def _event_type(value: Any) -> EventType:
    if value not in EVENT_TYPES:
        *types, last = map(repr, EVENT_TYPES)
        raise PydanticKnownError("enum", {"expected": f"{', '.join(types)} or {last}"})
    return EVENT_TYPES[value]


_EventType: TypeAlias = Annotated[
    EventType,
    PlainValidator(_event_type),  # a union of enumerations would be reported once for each of them
    WithJsonSchema({"type": "string", "enum": list(EVENT_TYPES)}),
]
EventTypes = Annotated[Several[_EventType], Query(description=f"Of these types. {_SEVERAL}")]
Prefix = Annotated[
    str | None,
    Query(max_length=128, description="Only items whose names begin with this, case-sensitively."),
]
CreatedAfter = Annotated[
    Moment | None,
    Query(description="Only items created after this time, ISO 8601 with a time zone."),
]
CreatedBefore = Annotated[
    Moment | None,
    Query(description="Only items created before this time, ISO 8601 with a time zone."),
]


def seconds_of(moment: AwareDatetime | None) -> float | None:
    """Return a time in seconds since 1970."""
    return None if moment is None else moment.timestamp()
