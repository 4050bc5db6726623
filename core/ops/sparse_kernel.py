"""Kernels that work on sparse inputs without converting them to dense arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

__all__ = ["SparseKernel", "no_kernel"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseKernel:
    """The implementation of an operator for one combination of storage types.

    ``forward`` and ``backward`` have the signatures of ``Operator``'s, but receive ``Rows`` instead
    of row_sparse arrays and ``Csr`` instead of csr ones.

    Attributes:
        stored: indices of the inputs that it receives as stored; all others are dense.
        output: storage type of its only output.
        forward, backward: the functions; ``backward`` reads what the operator's does.
        gradients: for each supported storage type of the output's gradient, the storage types of
            the inputs' gradients that ``backward`` computes; None for an input without. An output
            gradient of any other storage type is converted to a dense array first.
    """

    stored: tuple[int, ...]
    output: str
    forward: Callable[..., None]
    backward: Callable[..., None] | None = None
    gradients: Mapping[str, tuple[str | None, ...]] = dataclasses.field(default_factory=dict)

    def has_gradient(self, index: int) -> bool:
        """Return whether ``backward`` computes the gradient of an input."""
        return bool(self.gradients) and all(kinds[index] for kinds in self.gradients.values())


def no_kernel(inputs: Sequence[str]) -> SparseKernel | None:
    """Return None: there is no kernel for any inputs."""
    return None
