"""Errors of the engine.

    MXNetError
    ├── GraphError            a symbol or symbol JSON that is not a valid graph
    │   ├── UnknownOperator
    │   └── AttributeValueError   unknown, missing or malformed operator attribute
    ├── ShapeError            contradicting or unknown shapes
    ├── TypeInferenceError    contradicting or unknown dtypes
    ├── FormatError           a .params, .states or symbol file that cannot be read
    ├── StageError            a call made before another that it depends on
    ├── UsageError            arguments or calls that contradict each other, where MXNet asserts
    │   └── WrongType             an argument of a type that cannot be used
    ├── NotImplementedForSymbol   an NDArray method called on a symbol
    ├── NotSupportedForSparseNDArray   a method called on a sparse array that only dense ones have
    ├── OutOfRange            an index in the data that lies outside an axis
    ├── DeviceError           a device that does not exist
    └── KernelError           a device's library failed to run an operator

Every message names the node or argument, what was given, what was expected and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AttributeValueError",
    "DeviceError",
    "FormatError",
    "GraphError",
    "KernelError",
    "MXNetError",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "OutOfRange",
    "ShapeError",
    "StageError",
    "TypeInferenceError",
    "UnknownOperator",
    "UsageError",
    "WrongType",
    "did_you_mean",
]


class MXNetError(RuntimeError):
    """Base of all errors of the engine; MXNet scripts catch it under this name."""


class GraphError(MXNetError):
    """A symbol or symbol JSON does not describe a valid graph."""


class UnknownOperator(GraphError):
    """The graph uses an operator that is not registered."""


class AttributeValueError(GraphError, ValueError):
    """An operator attribute is unknown, missing or has an invalid value."""


class ShapeError(MXNetError, AssertionError, ValueError):
    """Shapes contradict each other or cannot be inferred.

    It is also an AssertionError, because MXNet asserts where it checks shapes in Python.
    """


class TypeInferenceError(MXNetError, TypeError):
    """Dtypes contradict each other or cannot be inferred."""


class OutOfRange(MXNetError, IndexError):
    """An index given as data lies outside the axis it selects from."""


class FormatError(MXNetError, ValueError):
    """A file is truncated, damaged or not in the expected format."""


class StageError(MXNetError, AssertionError):
    """A call was made before another call that it depends on; the message says which.

    It is also an AssertionError, like UsageError.
    """


class UsageError(MXNetError, AssertionError, ValueError):
    """Arguments or calls that contradict each other.

    MXNet uses assert here, so scripts may catch AssertionError; unlike assert, this works under -O.
    """


class WrongType(UsageError, TypeError):
    """An argument has an unusable type, which MXNet checks by assert."""


class NotImplementedForSymbol(MXNetError):
    """The method needs values, which an NDArray has and a symbol does not."""

    def __init__(self, function: str) -> None:
        super().__init__(
            f"{function} is not implemented for Symbol and only available in NDArray; "
            "bind the symbol and use the executor's outputs"
        )


class NotSupportedForSparseNDArray(MXNetError):
    """The method exists for dense arrays only."""

    def __init__(self, function: str, kind: str) -> None:
        super().__init__(
            f"{function} is not supported for {kind} and only available in NDArray; use "
            "tostype('default') first"
        )


class DeviceError(MXNetError):
    """The requested device does not exist on this machine."""


class KernelError(MXNetError):
    """A device's library failed to run an operator that it had prepared."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
