"""The operators as functions: ``nd.Convolution(data, weight, kernel=(3, 3), ...)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops import Operator
from ..ops.signature import operator_doc, operator_signature
from .array import call_operator

__all__ = ["make_function"]


def make_function(operator: type[Operator], name: str) -> Callable[..., Any]:
    """Return the function of an operator.

    It takes inputs and attributes as MXNet does, ``out`` (where to write), ``name`` (ignored), and
    ``ctx`` if the operator has no inputs.
    """

    def function(*args: Any, **kwargs: Any) -> Any:
        return call_operator(operator, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = operator_doc(operator, "NDArray")
    function.__signature__ = operator_signature(operator, ("out", "name"))  # type: ignore[attr-defined]
    return function
