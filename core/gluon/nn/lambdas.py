"""Functions as blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ndarray, symbol
from ...errors import UsageError
from ..base_block import Block
from ..hybrid_block import HybridBlock

__all__ = ["HybridLambda", "Lambda"]


class Lambda(Block):
    """A function of arrays.

    Args:
        function: called with the block's inputs, or the name of a function of ``mx.nd``.
        prefix: as for ``Block``.

    Raises:
        UsageError: there is no function of this name.
        ValueError: it is neither a name nor a function.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix)
        self._func_impl = _named(function, ndarray) if isinstance(function, str) else function
        self._func_name = _name_of(function)

    def forward(self, *args: Any) -> Any:
        """Call the function."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


class HybridLambda(HybridBlock):
    """A function of arrays or symbols.

    Args:
        function: called with ``mx.nd`` or ``mx.sym`` and the block's inputs; or the name of a
            function that both have.
        prefix: as for ``Block``.

    Raises:
        UsageError: there is no function of this name.
        ValueError: it is neither a name nor a function.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix)
        self._func_name = _name_of(function)
        if isinstance(function, str):
            found = {id(module): _named(function, module) for module in (ndarray, symbol)}
            self._func: Callable[..., Any] = lambda F, *args: found[id(F)](*args)
        else:
            self._func = function

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _named(name: str, module: Any) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(module, name, None)
    if found is None:
        raise UsageError(f"Function name {name} is not found in {module.__name__}")
    return found


def _name_of(function: Any) -> str:
    if isinstance(function, str):
        return function
    if not callable(function):
        raise ValueError(f"Unrecognized function in lambda: {function!r} of type {type(function)}")
    return getattr(function, "__name__", repr(function))
