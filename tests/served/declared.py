"""Checking answers against the OpenAPI document: status, code, headers, members."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import httpx
from jsonschema_rs import Validator, validator_for

from served.document import openapi_document

__all__ = ["check_declared", "declared_path", "undeclared"]

_OF_TRANSPORT = frozenset(
    {"connection", "content-length", "content-type", "date", "server", "transfer-encoding"}
)
_PROBLEM = "application/problem+json"


async def check_declared(answer: httpx.Response) -> None:
    """Event hook that fails on any undeclared part of an answer, except event streams."""
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        await answer.aread()
    faults = undeclared(answer)
    assert not faults, f"{answer.request.method} {answer.request.url}: {faults}; {answer.text}"


def undeclared(answer: httpx.Response) -> list[str]:
    """Return the undeclared parts of an answer; none for unknown paths."""
    operation = _operation(answer.request.method, answer.request.url.path)
    if operation is None:
        return []
    responses = operation["responses"]
    declared = responses.get(str(answer.status_code)) or responses.get("default")
    if declared is None:
        return [f"status {answer.status_code}"]
    known = {name.lower() for name in declared.get("headers", {})} | _OF_TRANSPORT
    faults = [f"header {name}" for name in answer.headers if name not in known]
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    if not media_type or answer.status_code in (204, 304):
        return faults
    media = declared.get("content", {}).get(media_type) or _any_image(declared, media_type)
    if media is None:
        return [*faults, f"content {media_type} of status {answer.status_code}"]
    if media_type == _PROBLEM and answer.json()["code"] not in media.get("examples", {}):
        faults.append(f"code {answer.json()['code']} of status {answer.status_code}")
    if media_type in (_PROBLEM, "application/json"):
        faults += _faults_of_body(media["schema"], answer.json())
    return faults


def _any_image(declared: dict[str, Any], media_type: str) -> Any:
    return declared.get("content", {}).get(f"{media_type.partition('/')[0]}/*")


def _faults_of_body(schema: dict[str, Any], value: Any) -> list[str]:
    try:
        _validator(json.dumps(schema)).validate(value)
    except ValueError as error:
        return [f"body: {str(error)[:300]}"]
    return [f"member {one}" for one in _members(schema, value, "")]


def _members(schema: dict[str, Any], value: Any, place: str) -> list[str]:
    """Return the members of a value that its schema does not name."""
    if "$ref" in schema:
        return _members(_resolved(schema["$ref"]), value, place)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        found = [_members(one, value, place) for one in options if _is_valid(one, value)]
        return min(found, key=len, default=[])
    if isinstance(value, list):
        items = schema.get("items", {})
        return [one for item in value for one in _members(items, item, f"{place}[]")]
    if not isinstance(value, dict):
        return []
    named, others = schema.get("properties", {}), schema.get("additionalProperties")
    faults = []
    for name, one in value.items():
        inner = named.get(name, others if isinstance(others, dict) else None)
        if inner is not None:
            faults += _members(inner, one, f"{place}.{name}")
        elif named:
            faults.append(f"{place}.{name}")
    return faults


def _is_valid(schema: dict[str, Any], value: Any) -> bool:
    return _validator(json.dumps(schema)).is_valid(value)


@cache
def _validator(schema: str) -> Validator:
    """Return the cached validator of a schema of the document; making one takes 10 ms."""
    return validator_for(json.loads(schema) | {"components": openapi_document()["components"]})


def _resolved(reference: str) -> dict[str, Any]:
    _, components, kind, name = reference.split("/")
    found: dict[str, Any] = openapi_document()[components][kind][name]
    return found


def declared_path(path: str) -> str | None:
    """Return a path as written in the document, with its parameters' names."""
    return next((text for pattern, text, _ in _paths() if pattern.fullmatch(path)), None)


def _operation(verb: str, path: str) -> dict[str, Any] | None:
    for pattern, _, operations in _paths():
        if pattern.fullmatch(path):
            found: dict[str, Any] | None = operations.get(verb.lower())
            return found
    return None


@cache
def _paths() -> list[tuple[re.Pattern[str], str, dict[str, Any]]]:
    """Return (pattern, path, operations), those with fewer parameters first."""
    paths = sorted(openapi_document()["paths"].items(), key=lambda one: one[0].count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path, found) for path, found in paths]
