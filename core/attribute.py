"""Scopes that set attributes of symbols (``mx.attribute``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar, Self

from .scope import Scope

__all__ = ["AttrScope"]


class AttrScope(Scope):
    """Sets attributes of every symbol created within; inner scopes extend outer ones.

    >>> with mx.AttrScope(ctx_group="stage1"):
    ...     fc1 = mx.sym.FullyConnected(data, num_hidden=10)

    Raises:
        ValueError: a value is not a string.
    """

    _subgraph_names: ClassVar[defaultdict[str, int]] = defaultdict(int)
    """Number of loops and branches created under each name (``subgraph_name``)."""

    def __init__(self, **kwargs: str) -> None:
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"Attributes need to be string, {key} is {value!r}")
        self._attr = kwargs
        self._entered: list[dict[str, str]] = []

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """Return the scope's attributes updated with the given ones."""
        own = self._entered[-1] if self._entered else self._attr
        return {**own, **(attr or {})}

    @staticmethod
    def subgraph_name(hint: str) -> str:
        """Return a new name for the body of a loop or branch, nested in that of the enclosing
        one."""
        outer = AttrScope.active().get(None).get("__subgraph_name__")
        name = f"{outer}${hint}" if outer else hint
        AttrScope._subgraph_names[name] += 1
        return f"{name}{AttrScope._subgraph_names[name] - 1}"

    def __enter__(self) -> Self:
        self._entered.append({**AttrScope.active().get(None), **self._attr})
        return super().__enter__()

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)  # type: ignore[arg-type]
        self._entered.pop()
