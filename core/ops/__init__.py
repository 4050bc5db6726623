"""Operators, one file per family. Importing this package fills the registry."""

from __future__ import annotations

from core.ops import (
    activation,
    broadcast,
    conv,
    dense,
    elemwise,
    elemwise_special,
    identity,
    joining,
    norm,
    norm_scale,
    pad,
    pool,
    product,
    reshape,
    selection,
    slicing,
    transpose,
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
    "broadcast",
    "canonical_names",
    "conv",
    "dense",
    "elemwise",
    "elemwise_special",
    "get_operator",
    "has_operator",
    "identity",
    "joining",
    "make_operator",
    "norm",
    "norm_scale",
    "pad",
    "pool",
    "product",
    "register",
    "reshape",
    "selection",
    "slicing",
    "transpose",
]
