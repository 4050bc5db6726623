"""Rules for the storage type of an operator's outputs, given those of its inputs.

They reproduce MXNet 1.9.1: where an operator returns ``row_sparse`` or ``csr`` there, its result is
converted to that type here, even if it was computed densely. Operators refer to these rules in
``Operator.output_storage``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = [
    "StorageRule",
    "dense",
    "if_alike",
    "if_one_is_sparse",
    "of_first",
    "of_rows_on_left",
    "scaled_matrix",
]

StorageRule = Callable[[Sequence[str]], str]


def dense(inputs: Sequence[str]) -> str:
    """Dense for all inputs."""
    return "default"


def of_first(inputs: Sequence[str]) -> str:
    """The type of the first input: for operators that map 0 to 0."""
    return inputs[0]


def if_alike(inputs: Sequence[str]) -> str:
    """The type of the inputs if they all have the same, else dense."""
    return inputs[0] if len(set(inputs)) == 1 else "default"


def if_one_is_sparse(inputs: Sequence[str]) -> str:
    """For products: the type of the sparse inputs if they all have the same, else dense."""
    sparse = set(inputs) - {"default"}
    return sparse.pop() if len(sparse) == 1 else "default"


def of_rows_on_left(inputs: Sequence[str]) -> str:
    """``row_sparse`` where the first input is."""
    return "row_sparse" if inputs[0] == "row_sparse" else "default"


def scaled_matrix(inputs: Sequence[str]) -> str:
    """For a ``csr`` matrix scaled by a dense array: ``csr``."""
    return "csr" if tuple(inputs) == ("csr", "default") else "default"
