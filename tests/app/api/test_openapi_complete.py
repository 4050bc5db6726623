"""The OpenAPI document describes every route, answer, member and header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.api.security.scopes import OPEN_PATHS
from app.domain.api_key import KeyScope
from served.document import openapi_document

ENUMERATED = {"kind", "level", "requested", "role", "stage", "state", "status"}
NAMES = {("StateLink", "state"), ("ProblemView", "status"), ("ErrorCodeView", "status")}
"""Members of those names that are none: a variable's name, a number."""
OF_THE_PROTOCOL = ("/v2", "/metrics", "/livez", "/readyz")
WITHOUT_A_BODY = {"load_model", "unload_model"}
OF_PYTHON = re.compile(r"(?<=\w )(None|True|False)\b|``|Attributes:|Args:|Returns:|Raises:")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, found in document["paths"].items():
        for verb, operation in found.items():
            yield f"{verb.upper()} {path}", operation


def members(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, schema in document["components"]["schemas"].items():
        for member, found in schema.get("properties", {}).items():
            yield name, member, found


def texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("description", "summary") and isinstance(value, str):
                yield value
            elif name not in ("example", "examples", "value"):
                yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


def has_values(schema: dict[str, Any], document: dict[str, Any]) -> bool:
    """Return whether all strings in a schema have their values listed."""
    if "$ref" in schema:
        return has_values(
            document["components"]["schemas"][schema["$ref"].split("/")[-1]], document
        )
    options = schema.get("anyOf")
    if options:
        return all(has_values(one, document) for one in options if one.get("type") != "null")
    return "enum" in schema or "const" in schema


def test_every_member_is_described(document: dict[str, Any]) -> None:
    silent = [
        f"{name}.{member}"
        for name, member, found in members(document)
        if not found.get("description") and "$ref" not in found
    ]
    assert silent == []


def test_every_parameter_and_header_is_described(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        for one in operation.get("parameters", ()):
            assert one.get("description"), (where, one["name"])
        for status, answer in operation["responses"].items():
            assert answer.get("description") not in (None, "", "Successful Response"), where
            for name, header in answer.get("headers", {}).items():
                declared = document["components"]["headers"][header["$ref"].split("/")[-1]]
                assert declared["description"], (where, status, name)


def test_every_answer_has_a_schema(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status in ("204", "304"):
                assert "content" not in answer, where
            elif status != "200" or operation["operationId"] not in WITHOUT_A_BODY:
                assert answer.get("content"), (where, status)
            for kind, media in answer.get("content", {}).items():
                schema = media.get("schema") or media.get("itemSchema")
                assert schema, (where, status, kind)
                is_bare = schema.get("type") == "object" and not schema.get("properties")
                assert not is_bare or isinstance(schema.get("additionalProperties"), dict), where


def test_every_refusal_has_an_example(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        for status, answer in operation["responses"].items():
            for kind, media in answer.get("content", {}).items():
                if (status[0] in "45" or status == "default") and kind != "text/plain":
                    assert media.get("examples") or media.get("example"), (where, status)


def test_enumerations_list_their_values(document: dict[str, Any]) -> None:
    open_ = [
        f"{name}.{member}"
        for name, member, found in members(document)
        if member in ENUMERATED and (name, member) not in NAMES
        if not has_values(found, document)
    ]
    assert open_ == []


def test_timestamps_and_names_have_one_format(document: dict[str, Any]) -> None:
    for name, member, found in members(document):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", member), (name, member)
        if member.endswith("_at"):
            options = [found, *found.get("anyOf", ())]
            assert any(one.get("format") == "date-time" for one in options), (name, member)


def test_no_text_refers_to_our_source_code(document: dict[str, Any]) -> None:
    found = [text for text in texts(document) if OF_PYTHON.search(text)]
    assert found == []


def test_every_route_states_the_key_it_needs(document: dict[str, Any]) -> None:
    for path, found in document["paths"].items():
        for verb, operation in found.items():
            needed = {scope for entry in operation["security"] for (scope,) in entry.values()}
            assert bool(needed) != (path in OPEN_PATHS or needed == set()), (verb, path)
            assert needed <= {*KeyScope}
            if needed:
                assert {"401", "403", "429"} <= set(operation["responses"]), (verb, path)
