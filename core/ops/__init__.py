"""Operators, one file per family. Importing this package fills the registry."""

from __future__ import annotations

from core.ops import (
    activation,
    conv,
    dense,
    elemwise,
    identity,
    pool,
)
from core.ops.operator import ALL, Operator, Reads, Run
from core.ops.registry import (
    canonical_names,
    get_operator,
    has_operator,
    make_operator,
    register,
)

__all__ = [
    "ALL",
    "Operator",
    "Reads",
    "Run",
    "activation",
    "canonical_names",
    "conv",
    "dense",
    "elemwise",
    "get_operator",
    "has_operator",
    "identity",
    "make_operator",
    "pool",
    "register",
]
