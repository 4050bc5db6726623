"""Typed operator attributes: parsing of MXNet's strings, defaults and errors.

An operator declares its attributes as annotated fields; the annotation chooses the parser:

    kernel: Shape                  "(5,5)", "[5, 5]", "5" or a Python tuple
    num_filter: int                "20"
    no_bias: bool                  "True", "true", "1"
    axis: int | None               also "None"
    act_type: str                  one of the declared choices
    dtype: DType | None            "float32", "None"
    scales: tuple[float, ...]      "(0.1,0.2)"
    begin: tuple[int | None, ...]  "(None, 1)"
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import AttributeValueError, TypeInferenceError, did_you_mean
from ..types import to_dtype
from .operator import Operator

__all__ = [
    "attribute",
    "attribute_fields",
    "describe_attribute",
    "format_attribute",
    "parse_attributes",
]


def attribute(
    default: Any = dataclasses.MISSING,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    doc: str = "",
    is_graphs: bool = False,
) -> Any:
    """Declare one attribute of an operator; without a default it is required.

    A field with ``is_graphs`` holds the operator's subgraphs and is not parsed as an attribute.
    """
    metadata = {
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "doc": doc,
        "is_graphs": is_graphs,
    }
    return dataclasses.field(default=default, metadata=metadata, kw_only=True)


_fields: dict[type[Operator], Mapping[str, dataclasses.Field[Any]]] = {}


def attribute_fields(operator: type[Operator]) -> Mapping[str, dataclasses.Field[Any]]:
    """Return the attribute fields of an operator class by name, in the order of declaration."""
    if operator not in _fields:
        _fields[operator] = {
            field.name: field
            for field in dataclasses.fields(operator)
            if field.name != operator.rest_attribute and not field.metadata["is_graphs"]
        }
    return _fields[operator]


def parse_attributes(operator: type[Operator], node: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Turn raw attribute values into the fields of an operator.

    Keys of the form ``__x__`` belong to the graph, not to the operator, and are ignored. As in
    MXNet, so are all keys if the operator has no attributes (published models have a ``dtype`` on
    ``zeros_like``) or sets ``ignores_unknown``.

    Raises:
        AttributeValueError: unknown, missing or malformed attribute, naming the node.
    """
    where = f"{operator.names[0]} {node!r}"
    fields = attribute_fields(operator)
    hints = _type_hints(operator)
    values: dict[str, Any] = {}
    rest: dict[str, str] = {}
    ignores_unknown = operator.ignores_unknown or not (fields or operator.ignored_attributes)
    for key, value in raw.items():
        if (key.startswith("__") and key.endswith("__")) or key in operator.ignored_attributes:
            continue
        if key in fields:
            values[key] = _parse_field(where, fields[key], hints[key], value)
        elif operator.rest_attribute:
            rest[key] = format_attribute(value)
        elif not ignores_unknown:
            raise AttributeValueError(
                f"{where}: attribute {key!r} is unknown{did_you_mean(key, fields)}; "
                f"it has {', '.join(fields) or 'none'}"
            )
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING:
            raise AttributeValueError(f"{where}: attribute {name!r} is required and missing")
    if operator.rest_attribute:
        values[operator.rest_attribute] = tuple(rest.items())
    return values


def format_attribute(value: Any) -> str:
    """Return the string that MXNet's Python package writes for an attribute value."""
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    if isinstance(value, (tuple, list)):
        # NumPy 2 would write np.int64(3) for a NumPy number inside a tuple.
        items = [x.item() if isinstance(x, np.generic) else x for x in value]
        value = items if isinstance(value, list) else tuple(items)
    return str(value)


def describe_attribute(operator: type[Operator], name: str) -> str:
    """Return one line on the values of an attribute, for the documentation of the operator."""
    field = attribute_fields(operator)[name]
    choices = field.metadata["choices"]
    kind = f"one of {', '.join(choices)}" if choices else _describe(_type_hints(operator)[name])
    if field.default is dataclasses.MISSING:
        kind += ", required"
    else:
        kind += f", default {field.default!r}"
    doc = field.metadata["doc"]
    return f"{name}: {kind}. {doc}".rstrip()


_hint_cache: dict[type[Operator], dict[str, Any]] = {}


def _type_hints(operator: type[Operator]) -> dict[str, Any]:
    if operator not in _hint_cache:
        _hint_cache[operator] = typing.get_type_hints(operator)
    return _hint_cache[operator]


# Attributes come from files that users upload. np.dtype reads text such as "(1 2)f4," by
# ast.literal_eval, which raises any of the errors of Python's parser.
_UNPARSABLE = (
    ValueError,
    OverflowError,
    SyntaxError,
    TypeError,
    MemoryError,
    RecursionError,
    TypeInferenceError,
)


def _parse_field(where: str, field: dataclasses.Field[Any], hint: Any, value: Any) -> Any:
    try:
        parsed = _parse(hint, value)
    except _UNPARSABLE:
        raise AttributeValueError(
            f"{where}: attribute {field.name!r} is {_shorten(value)}; expected {_describe(hint)}"
        ) from None
    choices = field.metadata["choices"]
    if choices and parsed is not None and parsed not in choices:
        raise AttributeValueError(
            f"{where}: attribute {field.name!r} is {parsed!r}; expected one of {', '.join(choices)}"
        )
    for bound, fails in (("minimum", _below), ("maximum", _above)):
        limit = field.metadata[bound]
        if limit is not None and parsed is not None and fails(parsed, limit):
            raise AttributeValueError(
                f"{where}: attribute {field.name!r} is {parsed!r}; its {bound} is {limit}"
            )
    return parsed


def _below(value: Any, limit: float) -> bool:
    return any(x < limit for x in value) if isinstance(value, tuple) else value < limit


def _above(value: Any, limit: float) -> bool:
    return any(x > limit for x in value) if isinstance(value, tuple) else value > limit


def _parse(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    # Optional[X] and X | None; no attribute is a union of two real types.
    if origin in (typing.Union, types.UnionType):
        if value is None or (isinstance(value, str) and value.strip() == "None"):
            return None
        (hint,) = (choice for choice in arguments if choice is not type(None))
        return _parse(hint, value)
    if origin is tuple:
        return tuple(_parse(arguments[0], item) for item in _sequence(value))
    if origin is np.dtype:
        return to_dtype(value)
    return _SCALARS[hint](value)


def _sequence(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        text = value.strip()
        # inf and nan are not Python literals, but MXNet writes them (Pad with -inf, clip bounds).
        if text[:1] in ("(", "["):
            items = [item.strip() for item in text[1:-1].split(",")]
            if text[-1:] not in (")", "]"):
                raise ValueError(value)
            return tuple(item for item in items if item)
        return (text,)
    if isinstance(value, (tuple, list, np.ndarray)):
        return tuple(value)
    return (value,)


def _parse_int(value: Any) -> int:
    number = _to_int(value)
    # MXNet's integer attributes are int64 or uint64 at most.
    if not -(2**63) <= number < 2**64:
        raise OverflowError(number)
    return number


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        # Files written under Python 2 hold 10L, the text of its long integers.
        text = value.strip().rstrip("lL")
        value = {"True": 1, "False": 0}.get(text, text)
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                value = float(text)
    if isinstance(value, (float, np.floating)) and not float(value).is_integer():
        raise ValueError(value)
    if not isinstance(value, (int, float, bool, np.integer, np.floating)):
        raise TypeError(value)
    return int(value)


def _parse_bool(value: Any) -> bool:
    if isinstance(value, str):
        value = {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
    if value not in (0, 1):
        raise ValueError(value)
    return bool(value)


def _parse_float(value: Any) -> float:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return float(value.strip().lower() == "true")
    return float(value)


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    int: _parse_int,
    bool: _parse_bool,
    float: _parse_float,
    str: str,
}


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (choice for choice in arguments if choice is not type(None))
        return f"{_describe(inner)} or None"
    if origin is tuple:
        return f"a tuple of {_describe(arguments[0])}"
    if origin is np.dtype:
        return "a dtype name"
    return {int: "an integer", bool: "True or False", float: "a number", str: "text"}[hint]


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
