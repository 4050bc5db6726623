"""What an operator says of computing from sparse inputs without making them dense."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

__all__ = ["SparseKernel", "no_kernel"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SparseKernel:
    """Computes from some inputs as they are stored, for one combination of storage types.

    ``forward`` and ``backward`` are called as those of ``Operator`` are. In the place of arrays
    they find ``Rows`` for what is row_sparse and ``Csr`` for what is csr.

    Attributes:
        stored: which inputs it takes as they are stored; all others are dense.
        output: storage type in which it gives its only output.
        forward, backward: the arithmetic; what ``backward`` reads is what the operator's does.
        gradients: by the storage type of the output's gradient, the storage types in which
            ``backward`` gives those of the inputs; None for an input that gets none this way.
            A gradient of a storage type that is missing is made dense first.
    """

    stored: tuple[int, ...]
    output: str
    forward: Callable[..., None]
    backward: Callable[..., None] | None = None
    gradients: Mapping[str, tuple[str | None, ...]] = dataclasses.field(default_factory=dict)

    def has_gradient(self, index: int) -> bool:
        """Tell whether ``backward`` gives the gradient of an input."""
        return bool(self.gradients) and all(kinds[index] for kinds in self.gradients.values())


def no_kernel(inputs: Sequence[str]) -> SparseKernel | None:
    """There is none, whatever the inputs are."""
    return None
