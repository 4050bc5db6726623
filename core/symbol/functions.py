"""The function of an operator in ``mx.sym``: ``FullyConnected(data, num_hidden=10, name="fc")``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops import Operator
from ..ops.signature import operator_doc, operator_signature
from .symbol import Symbol

__all__ = ["make_function"]

_NOTES = """
    name: name of the node; by default one is made from the operator's.
    attr: further attributes of the node, such as ``{"__mood__": "angry"}``.

Returns:
    Symbol of the outputs. Inputs that are not given become new variables named after the node.
"""


def make_function(operator: type[Operator], function_name: str) -> Callable[..., Symbol]:
    """Return the function of an operator under one of its names."""

    def function(*args: Any, **kwargs: Any) -> Symbol:
        return Symbol._call(operator, function_name, args, kwargs)

    function.__name__ = function.__qualname__ = function_name
    function.__doc__ = operator_doc(operator, "Symbol") + _NOTES
    function.__signature__ = operator_signature(  # type: ignore[attr-defined]
        operator, ("name", "attr", "out")
    )
    return function
