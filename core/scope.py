"""Scopes entered with ``with``, of which each thread has an innermost one."""

from __future__ import annotations

import threading
import warnings
from types import TracebackType
from typing import Any, ClassVar, Self

__all__ = ["Scope", "ScopeType"]


class ScopeType(type):
    """Gives a class of scopes its innermost one, as an attribute of the class."""

    _stacks: _Stacks

    @property
    def active(cls) -> Any:
        """The innermost scope of this thread; outside of all, the thread's default scope."""
        return cls._stacks.scopes[-1]

    @property
    def current(cls) -> Any:
        """As ``active``; deprecated in MXNet 1.9, and so here."""
        _warn(cls)
        return cls.active

    @current.setter
    def current(cls, scope: Scope) -> None:
        _warn(cls)
        cls._stacks.scopes[-1] = scope


class Scope(metaclass=ScopeType):
    """Base of scopes. A direct subclass starts a kind of scopes; its own subclasses share it."""

    _stacks: ClassVar[_Stacks]

    def __init_subclass__(cls) -> None:
        if Scope in cls.__bases__:
            cls._stacks = _Stacks(cls)

    def __enter__(self) -> Self:
        self._stacks.scopes.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stacks.scopes.pop()


class _Stacks(threading.local):
    """The scopes each thread has entered, innermost last, above one that is always there."""

    def __init__(self, outermost: type[Scope]) -> None:
        self.scopes: list[Any] = [outermost()]


def _warn(cls: type) -> None:
    warnings.warn(
        f"{cls.__name__}.current has been deprecated. "
        f"It is advised to use the `with` statement with {cls.__name__}.",
        DeprecationWarning,
        stacklevel=3,
    )
