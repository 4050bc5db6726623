"""Errors of the engine.

    MXNetError
    ├── GraphError            a symbol or symbol JSON that makes no graph
    │   ├── UnknownOperator
    │   └── AttributeValueError   unknown, missing or malformed operator attribute
    ├── ShapeError            contradicting or unknown shapes
    ├── TypeInferenceError    contradicting or unknown dtypes
    ├── FormatError           a .params, .states or symbol file that cannot be read
    ├── StageError            a call made before what it needs
    ├── UsageError            arguments or calls that contradict each other, where MXNet asserts
    │   └── WrongType             an argument of a type that cannot be used
    ├── NotImplementedForSymbol   an NDArray method called on a symbol
    ├── NotSupportedForSparseNDArray   a method called on a sparse array that only dense ones have
    ├── OutOfRange            an index in the data that lies outside an axis
    ├── DeviceError           a device that is not there
    └── KernelError           a device's library that refuses to run an operator

Every message names the node or argument, what was got, what was expected and what to do.
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
    """Base of all errors of the engine (the name MXNet scripts catch)."""


class GraphError(MXNetError):
    """A symbol or symbol JSON does not describe a valid graph."""


class UnknownOperator(GraphError):
    """The graph uses an operator that is not registered."""


class AttributeValueError(GraphError, ValueError):
    """An operator attribute is unknown, missing or has a value it cannot take."""


class ShapeError(MXNetError, AssertionError, ValueError):
    """Shapes contradict each other or cannot be inferred.

    MXNet asserts where it looks at shapes in Python, and raises an MXNetError elsewhere.
    """


class TypeInferenceError(MXNetError, TypeError):
    """Dtypes contradict each other or cannot be inferred."""


class OutOfRange(MXNetError, IndexError):
    """An index given as data lies outside the axis it selects from."""


class FormatError(MXNetError, ValueError):
    """A file is truncated, damaged or not in the format expected."""


class StageError(MXNetError, AssertionError):
    """A call came before the call it depends on; the message says which.

    MXNet asserts here, as with UsageError.
    """


class UsageError(MXNetError, AssertionError, ValueError):
    """Arguments or calls that contradict each other.

    MXNet asserts here, so scripts may catch AssertionError; this one is raised under -O too.
    """


class WrongType(UsageError, TypeError):
    """An argument has a type that cannot be used, where MXNet asserts another one."""


class NotImplementedForSymbol(MXNetError):
    """A symbol has no values: what was asked of it only an NDArray can do."""

    def __init__(self, function: str) -> None:
        super().__init__(
            f"{function} is not implemented for Symbol and only available in NDArray; "
            "bind the symbol and use the executor's outputs"
        )


class NotSupportedForSparseNDArray(MXNetError):
    """A sparse array cannot do what was asked of it: only a dense one can."""

    def __init__(self, function: str, kind: str) -> None:
        super().__init__(
            f"{function} is not supported for {kind} and only available in NDArray; use "
            "tostype('default') first"
        )


class DeviceError(MXNetError):
    """The device asked for does not exist on this machine."""


class KernelError(MXNetError):
    """A device's library refuses to run an operator, which it could prepare."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
