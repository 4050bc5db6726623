"""Operators, one file per family. Importing this package fills the registry."""

from __future__ import annotations

from core.ops import activation, dense
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
    "dense",
    "get_operator",
    "has_operator",
    "make_operator",
    "register",
]
