"""The types of results match the OpenAPI document."""

from __future__ import annotations

import types
import typing
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from app.client import inspection_results, module_results, results
from served.document import openapi_document

SCHEMAS = openapi_document()["components"]["schemas"]
TYPES = {
    name: getattr(module, name)
    for module in (results, module_results, inspection_results)
    for name in module.__all__
    if is_typeddict(getattr(module, name))
}
NAMED = {
    name: getattr(module, name)
    for module in (results, module_results, inspection_results)
    for name in module.__all__
    if name not in TYPES
}
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
ANYTHING = "anything"
OBJECT = ("object", ANYTHING)


def of_type(kind: Any) -> Any:
    """Return a type in a form that can be compared with a schema."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return ANYTHING
    if kind in PLAIN:
        return PLAIN[kind]
    if is_typeddict(kind):
        return kind.__name__
    if origin is typing.Literal:
        return ("enum", *sorted(inner))
    if origin is list:
        return ("array", of_type(inner[0]))
    if origin is dict:
        return ("object", of_type(inner[1]))
    assert origin in (typing.Union, types.UnionType), kind
    return union(of_type(one) for one in inner)


def of_schema(schema: Any) -> Any:
    """Return the type a schema describes; objects without a declared name are anonymous."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if name in TYPES else of_schema(SCHEMAS[name])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return union(of_schema(one) for one in schema[word])
    if "const" in schema:
        return ("enum", schema["const"])
    if "enum" in schema:
        return ("enum", *sorted(schema["enum"]))
    kind = schema.get("type", ANYTHING)
    if isinstance(kind, list):
        return union(of_schema({**schema, "type": one}) for one in kind)
    if kind == "array":
        return ("array", of_schema(schema.get("items") or {}))
    if kind == "object":
        values = schema.get("additionalProperties")
        return ("object", of_schema(values) if isinstance(values, dict) else ANYTHING)
    return kind


def union(parts: Any) -> Any:
    """Return a union, merging enumerations into one."""
    found: set[Any] = set()
    words: set[str] = set()
    for part in parts:
        if isinstance(part, tuple) and part[0] == "enum":
            words |= set(part[1:])
        elif isinstance(part, frozenset):
            found |= part
        else:
            found.add(part)
    if words:
        found.add(("enum", *sorted(words)))
    return next(iter(found)) if len(found) == 1 else frozenset(found)


def without_names(form: Any) -> tuple[Any, set[str]]:
    """Return a form with the names of objects removed, and the names."""
    if isinstance(form, frozenset):
        parts = [without_names(one) for one in form]
        return union(one for one, _ in parts), {name for _, names in parts for name in names}
    if isinstance(form, tuple):
        parts = [without_names(one) for one in form]
        return tuple(one for one, _ in parts), {name for _, names in parts for name in names}
    return (OBJECT, {form}) if form in TYPES else (form, set())


@pytest.mark.parametrize("name", TYPES)
def test_members_are_as_declared(name: str) -> None:
    """Except that ``dict[str, Any]`` may stand for a named object."""
    schema, hints = SCHEMAS[name], get_type_hints(TYPES[name], include_extras=True)
    assert hints.keys() == schema["properties"].keys()
    for member, hint in hints.items():
        may_be_absent = get_origin(hint) is typing.NotRequired
        assert may_be_absent == (member not in schema.get("required", ())), member
        got, names = without_names(of_type(get_args(hint)[0] if may_be_absent else hint))
        expected, declared = without_names(of_schema(schema["properties"][member]))
        assert got == expected, member
        assert names <= declared, member


@pytest.mark.parametrize("name", NAMED)
def test_enumerations_match_the_document(name: str) -> None:
    assert sorted(get_args(NAMED[name])) == sorted(SCHEMAS[name]["enum"])
