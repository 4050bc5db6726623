"""Domain values to plain JSON values and back, with errors that name the field."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError

from app.domain.names import in_words
from app.errors.quoting import brief, did_you_mean
from app.errors.tree import FieldError, Invalid

__all__ = ["STRICT_FIELDS", "canonical_json", "from_plain", "to_plain"]

T = TypeVar("T")

STRICT_FIELDS = ConfigDict(extra="forbid")
"""``__pydantic_config__`` for values written by clients: a misspelt field is an error."""


def to_plain(value: Any) -> Any:
    """Return a domain value as dicts, lists, strings and numbers."""
    return _adapter(type(value)).dump_python(value, mode="json")


def from_plain(cls: type[T], data: Any, field: str = "") -> T:
    """Build a domain value from plain values.

    Args:
        cls: the dataclass to build.
        data: returned by ``to_plain``, or sent by a client; NaN and infinity become None.
        field: path of ``data`` in the request, a prefix of the names in errors.

    Raises:
        Invalid: one row for each invalid field.
    """
    try:
        # Through JSON, because strict mode then accepts lists for tuples and words for enums, and
        # still refuses "5" or true for a number.
        built: T = _adapter(cls).validate_json(orjson.dumps(data), strict=True)
    except orjson.JSONEncodeError as error:
        raise Invalid(field or "body", data, f"plain JSON values ({error})") from None
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)[:_MOST_FAULTS]
        rows = (_field_error(cls, field, dict(row)) for row in faults)
        raise Invalid.from_errors(_one_a_field(rows)) from None
    return built


def canonical_json(value: Any) -> str:
    """Return canonical JSON text, the same for equal values: sorted keys, no spaces.

    Bucket keys are compared and stored in this form (``20``, ``[10,20]``, ``"a"``).
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


_EXPECTED = {
    "missing": "a value; the field is required",
    "unexpected_keyword_argument": "no field of this name",
}

_BRANCHES = frozenset({"int", "str", "float", "bool", "MetricSpec"})
_WRONG_FORMS = frozenset(
    {"missing", "tuple_type", "list_type", "dict_type", "dataclass_type", "dataclass_exact_type"}
)
_EXAMPLES = {
    "data_shapes": '[{"name": "data", "shape": [64, 3, 32, 32]}]',
    "label_shapes": '[{"name": "softmax_label", "shape": [64]}]',
    "shape": "[64, 3, 32, 32]",
    "inputs": '{"data": {"array": "train_images"}}',
    "optimizer": '{"name": "sgd", "options": {"learning_rate": 0.1}}',
    "initializer": '{"initializer": "xavier", "options": {"magnitude": 2}}',
    "options": '{"learning_rate": 0.1}',
    "checkpoint": '{"epochs": 1}',
    "metrics": '["accuracy", {"name": "top_k_accuracy", "options": {"top_k": 5}}]',
    "bucket_keys": "[10, 20, 30]",
}
"""Examples of fields of these names, for errors about values of another type."""

_MOST_FAULTS = 50
"""Maximum number of errors reported, because a body could have as many as it has bytes."""

_adapters: dict[type, TypeAdapter[Any]] = {}


def _adapter(cls: type) -> TypeAdapter[Any]:
    if cls not in _adapters:
        _adapters[cls] = TypeAdapter(cls)
    return _adapters[cls]


def _field_error(cls: type, prefix: str, row: dict[str, Any]) -> FieldError:
    path = prefix
    for part in row["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif "[" not in part and part not in _BRANCHES:  # else a branch of a union, not a field
            path += f".{part}" if path else str(part)
    got = "nothing" if row["type"] == "missing" else brief(row.get("input"))
    expected = _EXPECTED.get(row["type"]) or _sentence(in_words(row["msg"]))
    if row["type"] == "unexpected_keyword_argument" and len(row["loc"]) == 1:
        known = [one.name for one in dataclasses.fields(cls)]
        expected = f"one of the fields {', '.join(known)}{did_you_mean(str(row['loc'][0]), known)}"
    example = _EXAMPLES.get(re.sub(r"\[\d+\]$", "", path).rpartition(".")[2])
    is_form = row["type"] in _WRONG_FORMS
    return FieldError(
        path or "body", got, expected, f"for example {example}" if example and is_form else ""
    )


def _one_a_field(rows: Iterable[FieldError]) -> list[FieldError]:
    """Join the expectations of a union's branches for one field, any of which would be valid."""
    joined: dict[str, FieldError] = {}
    for row in rows:
        first = joined.get(row.field)
        if first is not None:
            expected = f"{first.expected} or {row.expected}"
            row = dataclasses.replace(first, expected=expected, hint=first.hint or row.hint)
        joined[row.field] = row
    return list(joined.values())


def _sentence(message: str) -> str:
    for opening in ("Value error, ", "Input should be ", "String should have "):
        message = message.removeprefix(opening)
    return message[:1].lower() + message[1:]
