"""Functions that blocks call before and after their forward pass."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..errors import UsageError

__all__ = ["HookHandle"]

Hook = Callable[..., Any]


class HookHandle:
    """A registered hook; ``detach``, or the end of a ``with`` block, removes it."""

    def __init__(self) -> None:
        self._hooks: dict[int, Hook] | None = None

    def attach(self, hooks: dict[int, Hook], hook: Hook) -> None:
        """Add a hook to a dict of hooks.

        Raises:
            UsageError: this handle is already attached.
        """
        if self._hooks is not None:
            raise UsageError("The same handle cannot be attached twice.")
        self._hooks = hooks
        hooks[id(self)] = hook

    def detach(self) -> None:
        """Remove the hook; a second call has no effect."""
        if self._hooks is not None:
            self._hooks.pop(id(self), None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()
