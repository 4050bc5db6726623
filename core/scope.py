"""Scopes entered with ``with``, of which each thread has an innermost one."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, ClassVar, Self

from .compat.class_attributes import ScopeType

__all__ = ["Scope"]


class Scope(metaclass=ScopeType):
    """Base of scopes. A direct subclass starts a kind of scopes; its own subclasses share it."""

    _stacks: ClassVar[_Stacks]

    def __init_subclass__(cls) -> None:
        if Scope in cls.__bases__:
            cls._stacks = _Stacks(cls)

    @classmethod
    def active(cls) -> Any:
        """Return the innermost scope of this thread; outside of all, the thread's default scope."""
        return cls._stacks.scopes[-1]

    @classmethod
    def _replace_active(cls, scope: Scope) -> None:
        cls._stacks.scopes[-1] = scope

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
