"""Schemas of the OpenAPI document made complete: descriptions of fields, types of what varies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from app.api.fact_views import (
    FitResult,
    JobFailure,
    JobProgress,
    PartMetrics,
    PredictResult,
    ScoreResult,
)
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
}
"""Members of views that depend on what the client asked for, kept as the executor told them."""


def complete_schemas(schemas: dict[str, Any]) -> None:
    """Add to the schemas of a document what their classes say elsewhere."""
    for (view, member), kinds in VARIED.items():
        options = [_option(kind, schemas) for kind in kinds]
        property_ = schemas[view]["properties"][member]
        kept = {name: property_[name] for name in ("description", "title") if name in property_}
        schemas[view]["properties"][member] = kept | {"anyOf": options}
    for schema in schemas.values():
        _describe_fields(schema)


def _option(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if kind is None:
        return {"type": "null"}
    schema = TypeAdapter(kind).json_schema(ref_template=_REFERENCE, mode="serialization")
    schemas.update(schema.pop("$defs", {}))
    schemas.setdefault(kind.__name__, schema)
    return {"$ref": _REFERENCE.format(model=kind.__name__)}


def _describe_fields(schema: dict[str, Any]) -> None:
    """Tell what a docstring says of each field at the field itself."""
    text = schema.get("description", "")
    if "``" in text:
        text = schema["description"] = text.replace("``", "`")
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
