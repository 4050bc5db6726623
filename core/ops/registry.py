"""The registry of operators, by canonical name and alias."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, dataclass_transform

from ..errors import AttributeValueError, UnknownOperator, did_you_mean
from .attributes import attribute, parse_attributes
from .operator import Operator
from .subgraph import Subgraph

__all__ = [
    "canonical_names",
    "declares_attributes",
    "get_operator",
    "has_operator",
    "make_operator",
    "register",
    "registered_names",
]

_T = TypeVar("_T", bound=Operator)
_operators: dict[str, type[Operator]] = {}


@dataclass_transform(field_specifiers=(attribute,), frozen_default=True, kw_only_default=True)
def register(name: str, *aliases: str) -> Callable[[type[_T]], type[_T]]:
    """Register an operator under its canonical name and aliases; raise if a name is taken."""

    def decorate(cls: type[_T]) -> type[_T]:
        cls = declares_attributes(cls)
        cls.names = (name, *aliases)
        for key in cls.names:
            if key in _operators:
                raise ValueError(f"operator {key!r} is registered twice")
            _operators[key] = cls
        return cls

    return decorate


@dataclass_transform(field_specifiers=(attribute,), frozen_default=True, kw_only_default=True)
def declares_attributes(cls: type[_T]) -> type[_T]:
    """Declare a base class whose attributes its subclasses share."""
    # Half of the five hundred operators add no attributes, so they can use the dataclass methods
    # generated for their base; generating them again would slow down the import.
    if not inspect.get_annotations(cls) and len(cls.__bases__) == 1:
        return cls
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def get_operator(name: str) -> type[Operator]:
    """Return the operator class of a name or alias; raise UnknownOperator."""
    try:
        return _operators[name]
    except KeyError:
        raise UnknownOperator(
            f"operator {name!r} is not known{did_you_mean(name, _operators)}"
        ) from None


def has_operator(name: str) -> bool:
    """Return whether a name or alias is registered."""
    return name in _operators


def make_operator(
    name: str, node: str, raw: Mapping[str, Any], subgraphs: Sequence[Subgraph] = ()
) -> Operator:
    """Return an operator with its attributes parsed; errors name the node.

    Errors include contradictions between attributes, which ``__post_init__`` detects.
    """
    cls = get_operator(name)
    attributes = parse_attributes(cls, node, raw)
    if cls.graph_names:
        attributes["subgraphs"] = tuple(subgraphs)
    try:
        return cls(**attributes)
    except AttributeValueError as error:
        raise AttributeValueError(f"{cls.names[0]} {node!r}: {error}") from None


def canonical_names() -> Iterator[str]:
    """Yield every operator's canonical name once."""
    return (name for name, cls in _operators.items() if cls.names[0] == name)


def registered_names() -> Iterator[str]:
    """Yield every canonical name and alias."""
    return iter(_operators)
