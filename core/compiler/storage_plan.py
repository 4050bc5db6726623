"""The result of ``plan_storage``: which values of a graph a plan keeps sparse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from ..graph.nodes import Node
from ..ops.sparse_kernel import SparseKernel

__all__ = ["StoragePlan"]


@dataclasses.dataclass(frozen=True)
class StoragePlan:
    """Which values a plan keeps sparse.

    Attributes:
        kept: storage types of sparse variables and of outputs that are kept sparse, by node.
        kernels: the sparse kernels of nodes that work directly on sparse inputs.
        copied: sparse variables that some operator reads as dense arrays.
    """

    kept: Mapping[Node, str]
    kernels: Mapping[Node, SparseKernel]
    copied: Set[Node]
