"""Scopes entered with ``with``, separately in each thread."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, ClassVar, Self

from .compat.class_attributes import ScopeType

__all__ = ["Scope"]


class Scope(metaclass=ScopeType):
    """Base of scopes. Each direct subclass is a separate kind of scope, shared by its own
    subclasses."""

    _stacks: ClassVar[_Stacks]

    def __init_subclass__(cls) -> None:
        if Scope in cls.__bases__:
            cls._stacks = _Stacks(cls)

    @classmethod
    def active(cls) -> Any:
        """Return this thread's innermost scope, or its default scope outside of all."""
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
    """The scopes that each thread has entered, innermost last; the first is the default scope.

    ``threading.local`` calls ``__init__`` again in every thread, which gives each its own default.
    """

    def __init__(self, outermost: type[Scope]) -> None:
        self.scopes: list[Any] = [outermost()]
