"""Times as clients see them: RFC 3339 in UTC, a profile of ISO 8601; ours are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

__all__ = ["Timestamp", "timestamp", "with_timestamps"]


def timestamp(seconds: float) -> str:
    """Return a time that is given in seconds since 1970."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def with_timestamps(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an event, with times as clients see them."""
    return {
        name: timestamp(value) if _is_moment(name) and isinstance(value, int | float) else value
        for name, value in data.items()
    }


def _is_moment(name: str) -> bool:
    return name == "not_before" or name.endswith("_at")


Timestamp: TypeAlias = Annotated[
    str,
    BeforeValidator(lambda value: value if isinstance(value, str) else timestamp(value)),
    WithJsonSchema(
        {"type": "string", "format": "date-time", "examples": ["2026-11-22T19:52:00.123Z"]}
    ),
]
"""A field that is given seconds since 1970."""
