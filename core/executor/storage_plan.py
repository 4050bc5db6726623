"""What a plan keeps sparse of a graph's values, as ``plan_storage`` decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from ..ops.sparse_kernel import SparseKernel
from ..symbol.graph import Node

__all__ = ["StoragePlan"]


@dataclasses.dataclass(frozen=True)
class StoragePlan:
    """What a plan keeps as it is stored.

    Attributes:
        kept: storage types of sparse variables and of outputs that are kept sparse, by node.
        kernels: by node, what computes from inputs as they are stored.
        copied: sparse variables that are read as dense arrays.
    """

    kept: Mapping[Node, str]
    kernels: Mapping[Node, SparseKernel]
    copied: Set[Node]
