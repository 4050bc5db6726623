"""The OpenAPI document: request bodies that routes read themselves, and every error answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from app.api.openapi_answers import ANSWERED_TENSOR, BINARY, RANKING, describe_successes
from app.api.openapi_headers import declare_headers
from app.api.openapi_keys import declare_keys
from app.api.openapi_schemas import complete_schemas
from app.api.problems import PROBLEM_JSON
from app.api.v1.views import ProblemView
from app.errors.answers import is_of_protocol
from app.errors.catalog import CATALOG
from app.tensors.codec import JSON, NPY, NPZ, SAFETENSORS

__all__ = [
    "build_openapi",
    "json_body",
    "problems",
    "raw_body",
    "tensor_body",
    "tensor_or_raw_body",
]

_bodies: dict[str, Any] = {}

_DESCRIPTIONS = {
    400: "The body cannot be read",
    404: "Not found",
    409: "The current state does not allow it; the answer says what to call first",
    412: "The state has moved on",
    413: "Over the limit",
    415: "The content type is not supported",
    416: "`Range` begins beyond the end of the file",
    422: "A field has an invalid value",
    503: "Temporarily unavailable; Retry-After says when to try again",
    504: "The call took longer than a call may; the executor is restored",
    507: "The server's disk is full",
}

_OF_ANY_REQUEST = sorted(
    {entry.status for entry in CATALOG.values() if entry.status} - _DESCRIPTIONS.keys()
)
"""Statuses of refusals before the route is known, and of failures of the server."""

_MEMBERS: dict[str, dict[str, Any]] = {
    "wrong_stage": {
        "needs": "initialized",
        "is": "bound",
        "call": "POST /v1/modules/lenet/params/init",
    },
    "params_lost": {"checkpoints": ["12", "11"]},
    "sequence_lost": {"sequence_id": "42"},
    "module_failed": {"reason": "its restore ended the executor's process 2 times"},
    "precondition_failed": {"present": '"12-3"'},
    "too_large": {"limit": 67_108_864},
    "headers_too_large": {"limit": 65_536},
    "forbidden": {"missing_scope": ["train"]},
}
"""Members that only problems of one code have."""

_PROBLEM = {"$ref": f"#/components/schemas/{ProblemView.__name__}"}
_FIELD_FAULT = {
    "field": "data_shapes[0].shape",
    "got": "[1, -1]",
    "expected": "sizes of at least 1",
    "hint": "",
}
_TENSOR: dict[str, Any] = {
    "title": "Tensor",
    "description": "Nested lists of numbers, or an object with shape, dtype and data.",
    "oneOf": [
        {"type": "array", "items": {}},
        {"type": "number"},
        {
            "type": "object",
            "required": ["data"],
            "additionalProperties": False,
            "properties": {
                "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "dtype": {"type": "string", "examples": ["float32"]},
                "data": {"type": "array", "items": {}},
            },
        },
    ],
}

_RAW: dict[str, Any] = {
    "title": "Text or image",
    "description": "A text, or a file of an image in Base64, of an input that has a transform.",
    "oneOf": [
        {"type": "string"},
        {
            "type": "object",
            "required": ["b64"],
            "additionalProperties": False,
            "properties": {"b64": {"type": "string", "contentEncoding": "base64"}},
        },
    ],
}


def json_body(
    cls: Any,
    example: Any = None,
    *,
    name: str | None = None,
    required: bool = True,
    other_forms: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return ``openapi_extra`` of a route that reads a JSON body as a domain value.

    Args:
        cls: the value, or a union of several.
        example: of the body.
        name: of the schema; None takes the value's own.
        required: whether a body is required.
        other_forms: alternative contents by media type.
    """
    name = name or cls.__name__
    _bodies[name] = cls
    media: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    if example is not None:
        media["example"] = example
    content = {JSON: media, **(other_forms or {})}
    return {"requestBody": {"required": required, "content": content}}


def tensor_body(
    example: Any, fields: dict[str, Any] | None = None, *, required: bool = True
) -> dict[str, Any]:
    """Return ``openapi_extra`` of a route that reads tensors by name.

    Args:
        example: a JSON body.
        fields: schemas of the JSON body's members beside ``inputs``.
        required: whether a body with tensors is required.
    """
    schema = {
        "type": "object",
        "required": ["inputs"] if required else [],
        "additionalProperties": False,
        "properties": {
            "inputs": {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/Tensor"},
            },
            **(fields or {}),
        },
    }
    content = {JSON: {"schema": schema, "example": example}}
    content.update({kind: BINARY for kind in (NPY, NPZ, SAFETENSORS)})
    return {"requestBody": {"required": required, "content": content}}


def tensor_or_raw_body(
    example: dict[str, Any], fields: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the same of a route that takes images and texts as well."""
    extra = tensor_body(example, fields)
    content = extra["requestBody"]["content"]
    one_or_more: list[dict[str, Any]] = [{"$ref": "#/components/schemas/Raw"}]
    one_or_more.append({"type": "array", "minItems": 1, "items": one_or_more[0]})
    schema = content[JSON]["schema"]
    schema["properties"]["inputs"]["additionalProperties"] = {
        "anyOf": [{"$ref": "#/components/schemas/Tensor"}, *one_or_more]
    }
    schema["properties"]["text"] = {"anyOf": one_or_more}
    schema["anyOf"] = [{"required": [name]} for name in (*schema.pop("required"), "text")]
    file = {"type": "string", "format": "binary"}
    files = {"type": "object", "additionalProperties": {"type": "array", "items": file}}
    content |= {"image/*": BINARY, "multipart/form-data": {"schema": files}}
    content["text/plain"] = {"schema": {"type": "string"}}
    return extra


def raw_body(description: str) -> dict[str, Any]:
    """Return ``openapi_extra`` of a route that reads a file."""
    content = {"application/octet-stream": BINARY}
    return {"requestBody": {"required": True, "description": description, "content": content}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return ``responses`` for the errors a route may answer with."""
    return {
        status: {
            "description": _DESCRIPTIONS[status],
            "content": {PROBLEM_JSON: {"schema": _PROBLEM, "examples": _examples_of(status)}},
        }
        for status in statuses
    }


def _examples_of(*statuses: int) -> dict[str, Any]:
    return {
        code: {"$ref": f"#/components/examples/{code}"}
        for code, entry in CATALOG.items()
        if entry.status in statuses
    }


def _examples() -> dict[str, Any]:
    """Return a problem of every code."""
    return {
        code: {
            "summary": entry.title,
            "description": entry.remedy,
            "value": {
                "type": f"/v1/errors/{code}",
                "title": entry.title,
                "status": entry.status,
                "detail": "What happened to this request, and what to do.",
                "instance": "/v1/modules/lenet",
                "code": code,
                "request_id": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
                "errors": [_FIELD_FAULT] if entry.status == 422 else [],
                **_MEMBERS.get(code, {}),
            },
        }
        for code, entry in CATALOG.items()
        if entry.status is not None
    }


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application, completed with what FastAPI cannot know."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        servers=[{"url": app.root_path}] if app.root_path else None,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= {"Tensor": _TENSOR, "AnsweredTensor": ANSWERED_TENSOR, "Ranking": RANKING}
    schemas["Raw"] = _RAW
    document["components"]["examples"] = _examples()
    for name, cls in (*_bodies.items(), (ProblemView.__name__, ProblemView)):
        schema = TypeAdapter(cls).json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[name] = schema
    complete_schemas(schemas, _bodies.values())
    # Validation errors are problem+json here, never FastAPI's own form.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            _replace_validation_error(operation)
            describe_successes(operation, schemas)
            if is_of_protocol(path):
                operation["responses"].pop("422", None)
            if path.startswith("/v1/"):
                _add_common_failures(verb, operation)
    declare_keys(document)
    declare_headers(document, problems(412)[412])
    return document


def _add_common_failures(verb: str, operation: dict[str, Any]) -> None:
    """Declare errors common to all routes, to those that use the store, and to those that write."""
    statuses = (503,) if verb == "get" else (503, 507)
    if "requestBody" in operation:  # a part of a file (``Content-Range``) is refused everywhere
        statuses = (400, *statuses)
    responses = operation.setdefault("responses", {})
    for status, answer in problems(*statuses).items():
        responses.setdefault(str(status), answer)
    responses.setdefault("default", _REFUSED_EARLIER)


_REFUSED_EARLIER = {
    "description": "Refused before the route was known, or an error of the server",
    "content": {PROBLEM_JSON: {"schema": _PROBLEM, "examples": _examples_of(*_OF_ANY_REQUEST)}},
}


def _replace_validation_error(operation: dict[str, Any]) -> None:
    answer = operation.get("responses", {}).get("422")
    if answer and JSON in answer.get("content", {}):
        operation["responses"]["422"] = problems(422)[422]
