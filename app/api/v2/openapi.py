"""What the OpenAPI document says about the protocol's routes beyond what FastAPI derives."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from app.api.v2.views import ProtocolError
from app.domain.names import NAME_PATTERN

__all__ = [
    "ModelName",
    "VersionName",
    "answers",
    "failures",
    "json_content",
    "not_ready",
    "raw_request",
]

Responses = dict[int | str, dict[str, Any]]

_NAME = {"pattern": f"^{NAME_PATTERN}$"}
"""Documented but not checked: a model with another name is not found."""

ModelName = Annotated[
    str, Path(description="Name of a module.", examples=["lenet"], json_schema_extra=_NAME)
]
VersionName = Annotated[
    str, Path(description="Version of the model.", examples=["live"], json_schema_extra=_NAME)
]

_ERRORS = {
    400: "The request, or a tensor of it, is wrong",
    404: "The model or version does not exist",
    413: "Over the limit, compressed or decompressed",
    501: "The content encoding is not supported; use gzip or deflate",
    503: "Not ready, or overloaded; Retry-After says when to try again",
    504: "The inference took longer than one may; the model is being restored",
}


def answers(view: Any, example: Any, *errors: int) -> Responses:
    """Return the ``responses`` of a route: one with a view, which has an example, and errors.

    Args:
        view: class of the response; None for one without a body.
    """
    found: Responses = {200: {"description": "Done; there is no body"}}
    if view is not None:
        content = {"application/json": {"example": example}}
        found[200] = {"description": "What was asked for", "model": view, "content": content}
    return found | failures(*errors)


def failures(*statuses: int) -> Responses:
    """Return the ``responses`` of errors."""
    return {
        status: {
            "description": _ERRORS[status],
            "model": ProtocolError,
            "content": {"application/json": {"example": {"error": _ERRORS[status]}}},
        }
        for status in statuses
    }


def not_ready(view: Any) -> Responses:
    """Return the ``responses`` of a readiness check that has failed."""
    example = {"ready": False, "error": "executors are down or starting: cpu(0)"}
    content = {"application/json": {"example": example}}
    return {503: {"description": _ERRORS[503], "model": view, "content": content}}


def json_content(example: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON body."""
    return {"application/json": {"schema": schema, "example": example}}


def raw_request(content: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """Return the ``openapi_extra`` of a route that reads its body itself."""
    return {"requestBody": {"required": required, "content": content}}
