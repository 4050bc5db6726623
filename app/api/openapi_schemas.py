"""Completion of the OpenAPI document's schemas: descriptions of fields, types that vary."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from app.api.v1.event_facts import EVENT_FACTS
from app.api.v1.fact_views import (
    Compression,
    FitResult,
    JobFailure,
    JobProgress,
    PartMetrics,
    PredictResult,
    ScoreResult,
    Symbol,
)
from app.api.v1.views import PageView
from app.domain.job_params import FitParams, PredictParams, ScoreParams

__all__ = ["complete_schemas"]

_REFERENCE = "#/components/schemas/{model}"
_SECTION = "\n\nAttributes:\n"
_ENTRY = re.compile(r"    (\w+(?:, \w+)*): (.*)")
_OTHER_NAMES = {"source": "from"}

VARIED: Mapping[tuple[str, str], tuple[Any, ...]] = {
    ("JobView", "params"): (FitParams, ScoreParams, PredictParams),
    ("JobView", "progress"): (JobProgress,),
    ("JobView", "result"): (FitResult, ScoreResult, PredictResult, None),
    ("JobView", "error"): (JobFailure, None),
    ("JobView", "setback"): (JobFailure, None),
    ("CheckpointView", "metrics"): (PartMetrics,),
    ("VersionView", "metrics"): (PartMetrics,),
    ("EventView", "data"): EVENT_FACTS,
    ("ModuleView", "compression_params"): (Compression, None),
    ("ModuleBody", "compression_params"): (Compression, None),
    ("ModuleBody", "symbol"): (Symbol, str, None),
}
"""Members of views that depend on the request, passed on as the executor reported them."""


_OTHER_WORDS = {"None": "null", "True": "true", "False": "false"}
"""JSON's terms for Python's in docstrings."""

_COMMON = {
    "created_at": "When it was created.",
    "updated_at": "When it was changed last.",
}
"""Descriptions of members that have none of their own."""


def complete_schemas(schemas: dict[str, Any], bodies: Iterable[type]) -> None:
    """Add descriptions from the classes to the schemas of a document.

    Args:
        schemas: to be changed, by name.
        bodies: classes to which some of the schemas belong.
    """
    for (view, member), kinds in VARIED.items():
        options = [_option(kind, schemas) for kind in kinds]
        property_ = schemas[view]["properties"][member]
        kept = {name: property_[name] for name in ("description", "title") if name in property_}
        schemas[view]["properties"][member] = kept | {"anyOf": options}
    symbols = schemas["ModuleBody"]["properties"]["symbols"]
    for option in symbols["anyOf"]:
        if option.get("type") == "object":
            option["additionalProperties"] = {"anyOf": [_option(Symbol, schemas), _option(str, {})]}
    for name, schema in schemas.items():
        if name.startswith("PageView_"):
            schema.setdefault("description", inspect.getdoc(PageView))
        _describe_fields(schema)
    for cls in _classes_in([*bodies, *(kind for kinds in VARIED.values() for kind in kinds)]):
        _describe_inherited(cls, schemas)
    for schema in schemas.values():
        for name, member in schema.get("properties", {}).items():
            if name in _COMMON and "$ref" not in member:
                member.setdefault("description", _COMMON[name])


def _classes_in(kinds: Iterable[Any]) -> set[type]:
    """Return the dataclasses among types, and those of their fields, however nested."""
    found: set[type] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in found:
            found.add(kind)
            waiting += get_type_hints(kind).values()
    return found


def _describe_inherited(cls: type, schemas: dict[str, Any]) -> None:
    schema = schemas.get(cls.__name__, {"properties": {}})
    for base in cls.__mro__[1:-1]:
        said = {"description": inspect.getdoc(base), "properties": schema["properties"]}
        _describe_fields(said)


def _option(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if kind in (None, str):
        return {"type": "null" if kind is None else "string"}
    schema = TypeAdapter(kind).json_schema(ref_template=_REFERENCE, mode="serialization")
    schemas.update(schema.pop("$defs", {}))
    schemas.setdefault(kind.__name__, schema)
    return {"$ref": _REFERENCE.format(model=kind.__name__)}


def _describe_fields(schema: dict[str, Any]) -> None:
    """Copy what a docstring says of each field to the field itself."""
    text = schema.get("description", "")
    if "``" in text:
        text = schema["description"] = text.replace("``", "`")
    for ours, theirs in _OTHER_WORDS.items():
        text = re.sub(rf"\b{ours}\b", theirs, text)
    opening, _, section = text.partition(_SECTION)
    if not section:
        return
    schema["description"] = opening
    for names, said in _entries(section):
        for name in names.split(", "):
            found = schema["properties"].get(_OTHER_NAMES.get(name, name))
            if found is not None:
                found.setdefault("description", said[:1].upper() + said[1:])


def _entries(section: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in section.split("\n"):
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            found.append((entry[1], entry[2]))
        elif line.strip() and found:
            names, said = found[-1]
            found[-1] = (names, f"{said} {line.strip()}")
    return found
