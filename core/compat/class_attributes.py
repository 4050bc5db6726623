"""Class attributes deprecated by MXNet 1.9. They need metaclasses, because they can be set."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["ContextType", "ScopeType"]


class ContextType(type):
    """Gives ``Context`` its ``default_ctx``."""

    @property
    def default_ctx(cls: Any) -> Any:
        """The current context; deprecated: use ``current_context()``."""
        _warn_of_default()
        return cls._current()

    @default_ctx.setter
    def default_ctx(cls: Any, context: Any) -> None:
        _warn_of_default()
        cls._replace_current(context)


class ScopeType(type):
    """Gives ``AttrScope`` and ``NameManager`` their ``current``."""

    @property
    def current(cls: Any) -> Any:
        """The innermost scope of this thread; deprecated."""
        _warn_of_current(cls)
        return cls.active()

    @current.setter
    def current(cls: Any, scope: Any) -> None:
        _warn_of_current(cls)
        cls._replace_active(scope)


def _warn_of_default() -> None:
    warnings.warn(
        "Context.default_ctx has been deprecated. Please use current_context(), "
        "`with` and set_default_context() instead.",
        DeprecationWarning,
        stacklevel=3,
    )


def _warn_of_current(cls: type) -> None:
    warnings.warn(
        f"{cls.__name__}.current has been deprecated. "
        f"It is advised to use the `with` statement with {cls.__name__}.",
        DeprecationWarning,
        stacklevel=3,
    )
