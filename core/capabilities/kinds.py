"""Kinds of operators, which link an operator with its kernels.

A kind is a protocol of typed attributes. An operator declares its kind with ``implements``; a
backend registers kernels for the kind (``KernelTable.register``), which receive the operator under
that type. So the type checker compares both with the same protocol, and neither knows the other's
names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

__all__ = ["Kind", "Named", "implements", "is_of"]

O = TypeVar("O")  # noqa: E741 - an operator


class Named(Protocol):
    """Any operator."""

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical name, then aliases."""

    @property
    def kind(self) -> Kind[Any] | None:
        """The kind it is of; None if no kernel knows it."""


# Compared by identity: two kinds may have the same name, as "batch norm" of numbers and of bytes.
@dataclasses.dataclass(frozen=True, eq=False)
class Kind(Generic[O]):
    """A kind of operators.

    Attributes:
        name: for messages and tests.
    """

    name: str


def implements(kind: Kind[O]) -> Callable[[type[O]], Any]:
    """Declare that a class of operators is of a kind, and so are those derived from it."""

    def declare(operator: type[O]) -> Any:
        operator.kind = kind  # type: ignore[attr-defined]
        return operator

    return declare


def is_of(operator: Named, kind: Kind[O]) -> TypeGuard[O]:
    """Return whether an operator is of a kind."""
    return operator.kind is kind
