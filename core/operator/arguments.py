"""The inputs and attributes of an operator, in MXNet's words."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, NamedTuple

from ..ops.attributes import attribute_fields, format_attribute
from ..ops.registry import get_operator
from ..ops.signature import argument_names
from ..types import DType

__all__ = ["OperatorArguments", "get_operator_arguments"]

_KINDS = {
    bool: "boolean",
    int: "int",
    float: "float",
    str: "string",
    DType: "dtype",
}


class OperatorArguments(NamedTuple):
    """Inputs first, then attributes: how many, their names, and the type of each in words."""

    narg: int
    names: list[str]
    types: list[str]


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Return what an operator takes, by its name or an alias.

    Raises:
        UnknownOperator: there is none of this name.
    """
    operator = get_operator(op_name)
    hints = typing.get_type_hints(operator)
    names = list(argument_names(operator))
    kinds = ["NDArray-or-Symbol"] * len(names)
    if operator.variadic is not None:
        names, kinds = ["data"], ["NDArray-or-Symbol[]"]
    for name, field in attribute_fields(operator).items():
        names.append(name)
        kinds.append(_described(field, hints[name]))
    return OperatorArguments(len(names), names, kinds)


def _described(field: dataclasses.Field[Any], hint: Any) -> str:
    kind = _kind(field, hint)
    if field.default is dataclasses.MISSING:
        return f"{kind}, required"
    if isinstance(field.default, bool):
        return f"{kind}, optional, default={int(field.default)}"
    return f"{kind}, optional, default={format_attribute(field.default)!r}"


def _kind(field: dataclasses.Field[Any], hint: Any) -> str:
    if choices := field.metadata["choices"]:
        return "{" + ", ".join(repr(choice) for choice in sorted(choices)) + "}"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = next(one for one in typing.get_args(hint) if one is not type(None))
        return f"{_kind(field, inner)} or None"
    return "Shape(tuple)" if typing.get_origin(hint) is tuple else _KINDS.get(hint, "value")
