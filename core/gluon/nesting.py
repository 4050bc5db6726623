"""Nested lists of a block's arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ..errors import UsageError
from ..ndarray import NDArray
from ..symbol import Symbol

__all__ = ["Form", "flatten", "leaves", "regroup"]

Form: TypeAlias = Any
"""The structure of nested lists: 0 for an array or a symbol of one output, the number of outputs
for a symbol of several, -1 for None, and a tuple of forms for a list or tuple."""


def leaves(nested: Any) -> Iterator[NDArray | Symbol]:
    """Yield the arrays and symbols in nested lists, in order; skip everything else."""
    if isinstance(nested, (NDArray, Symbol)):
        yield nested
    elif isinstance(nested, (list, tuple)):
        for item in nested:
            yield from leaves(item)


def flatten(what: str, nested: Any) -> tuple[list[Any], Form]:
    """Return the arrays, symbols and Nones of nested lists in order, and the form of the lists.

    Raises:
        UsageError: the lists contain something else; the message calls them ``what``.
    """
    if nested is None:
        return [None], -1
    if isinstance(nested, NDArray):
        return [nested], 0
    if isinstance(nested, Symbol):
        return [nested], len(nested) if len(nested) > 1 else 0
    if not isinstance(nested, (list, tuple)):
        raise UsageError(
            f"When hybridized, the {what} of HybridBlock must be (nested) list of Symbol or "
            f"NDArray, but got {str(nested)[:80]} of type {type(nested).__name__}"
        )
    parts = [flatten(what, item) for item in nested]
    return [one for flat, _ in parts for one in flat], tuple(form for _, form in parts)


def regroup(flat: Sequence[Any], form: Form) -> Any:
    """Return the items in nested lists of this form."""
    rest = iter(flat)
    return _take(lambda: next(rest), form)


def _take(following: Callable[[], Any], form: Form) -> Any:
    if isinstance(form, tuple):
        return [_take(following, inner) for inner in form]
    if form > 0:
        return [following() for _ in range(form)]
    return following()
