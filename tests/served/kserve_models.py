"""Checking resources against KServe's own models: unknown, missing and wrong fields."""

from __future__ import annotations

import re
from typing import Any

import pytest

__all__ = ["faults"]

_PLAIN: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "object": object,
    "ResourceQuantity": (str, int),
    "IntstrIntOrString": (str, int),
    "datetime": str,
}


def faults(value: Any, kind: str, path: str = "") -> list[str]:
    """Return what is wrong with a value as a given kind, such as ``V1alpha1ServingRuntime``."""
    found = re.fullmatch(r"(list)\[(.+)\]|dict[\[(]str, (.+)[\])]", kind, re.IGNORECASE)
    if found is not None:
        expected: type = list if found[1] else dict
        if not isinstance(value, expected):
            return [f"{path}: expected {kind}, got {value!r}"]
        rows = enumerate(value) if expected is list else value.items()
        return [
            one
            for key, each in rows
            for one in faults(each, found[2] or found[3], f"{path}[{key}]")
        ]
    if kind in _PLAIN:
        # JSON booleans are not numbers.
        is_right = isinstance(value, _PLAIN[kind]) and (kind != "int" or value is not True)
        return [] if is_right else [f"{path}: expected {kind}, got {value!r}"]
    return _faults_of_object(value, kind, path)


def _faults_of_object(value: Any, kind: str, path: str) -> list[str]:
    # Imported here, because it registers metrics in the importing process.
    kserve = pytest.importorskip("kserve")
    kubernetes = pytest.importorskip("kubernetes.client")
    model = getattr(kserve, kind, None) or getattr(kubernetes, kind, None)
    if model is None:
        return [f"{path}: nobody has a model of {kind}"]
    if not isinstance(value, dict):
        return [f"{path}: expected {kind}, got {value!r}"]
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    unknown = [f"{path}.{name}: {kind} has no such field" for name in value.keys() - names.keys()]
    given = {names[name]: one for name, one in value.items() if name in names}
    below = [
        fault
        for attribute, one in given.items()
        for fault in faults(one, model.openapi_types[attribute], f"{path}.{attribute}")
    ]
    try:
        model(**given)
    except ValueError as error:
        return [*unknown, *below, f"{path}: {error}"]
    return [*unknown, *below]
