"""Automatic names of symbols (``mx.name``)."""

from __future__ import annotations

from .scope import Scope

__all__ = ["NameManager", "Prefix"]


class NameManager(Scope):
    """Gives a name to every symbol made without one: ``fullyconnected0``, ``fullyconnected1``.

    A new manager counts from 0. Subclasses change ``get``; used with ``with``.
    """

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}

    def get(self, name: str | None, hint: str) -> str:
        """Return ``name``, or if there is none the next name made from ``hint``."""
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return f"{hint}{count}"


class Prefix(NameManager):
    """Puts a prefix before all names, given ones included.

    >>> with mx.name.Prefix("mynet_"):
    ...     net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=10, name="fc1")
    >>> net.list_arguments()
    ['data', 'mynet_fc1_weight', 'mynet_fc1_bias']
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        return self._prefix + super().get(name, hint)
