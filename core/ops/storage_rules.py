"""In which storage type the outputs of an operator are kept, from those of its inputs.

Everything is computed densely. An output that MXNet 1.9.1 gives as ``row_sparse`` or ``csr`` is
stored so afterwards: each operator says which ones those are (``Operator.output_storage``), most by
one of these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["StorageRule", "dense", "if_alike", "if_one_is_sparse", "of_first", "scaled_matrix"]

StorageRule = Callable[[Sequence[str]], str]


def dense(inputs: Sequence[str]) -> str:
    """Dense, whatever the inputs are."""
    return "default"


def of_first(inputs: Sequence[str]) -> str:
    """As the first input: an operator that gives 0 for 0."""
    return inputs[0]


def if_alike(inputs: Sequence[str]) -> str:
    """As the inputs, where all are stored alike."""
    return inputs[0] if len(set(inputs)) == 1 else "default"


def if_one_is_sparse(inputs: Sequence[str]) -> str:
    """As the sparse inputs, where these are of one type: a product."""
    sparse = set(inputs) - {"default"}
    return sparse.pop() if len(sparse) == 1 else "default"


def scaled_matrix(inputs: Sequence[str]) -> str:
    """As a ``csr`` matrix that is scaled by a dense array."""
    return "csr" if tuple(inputs) == ("csr", "default") else "default"
