"""What the OpenAPI document says of the protocol's routes, beside what FastAPI finds."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from app.domain.names import NAME_PATTERN

__all__ = ["ModelName", "VersionName", "answers", "json_content", "raw_request"]

Responses = dict[int | str, dict[str, Any]]

_NAME = {"pattern": f"^{NAME_PATTERN}$"}
"""Told, not checked: a model of another name is not found."""

ModelName = Annotated[
    str, Path(description="Name of a module.", examples=["lenet"], json_schema_extra=_NAME)
]
VersionName = Annotated[
    str, Path(description="Version of it.", examples=["live"], json_schema_extra=_NAME)
]

_ERRORS = {
    400: "The request, or a tensor of it, is wrong",
    404: "There is no such model or version",
    413: "Over the limit, as it came or decompressed",
    501: "The content encoding is not read; gzip and deflate are",
    503: "Not ready, or too much is waiting; Retry-After says when to try again",
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
}


def answers(example: Any, *errors: int, schema: dict[str, Any] | None = None) -> Responses:
    """Return ``responses`` of a route: an answer like an example, and errors."""
    found: Responses = {200: {"description": "Done"}}
    if example is not None:
        found[200] = {"description": "What was asked for", "content": json_content(example, schema)}
    for status in errors:
        found[status] = {
            "description": _ERRORS[status],
            "content": json_content({"error": _ERRORS[status]}, _ERROR),
        }
    return found


def json_content(example: Any, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the content of a JSON body like an example."""
    kind = "array" if isinstance(example, list) else "object"
    return {"application/json": {"schema": schema or {"type": kind}, "example": example}}


def raw_request(content: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """Return ``openapi_extra`` of a route that reads its body itself."""
    return {"requestBody": {"required": required, "content": content}}
