"""The column-wise Kronecker product. MXNet has no gradient for it."""

from __future__ import annotations

from oracle.case import Case

_THREE = {"a": (2, 3), "b": (4, 3), "c": (2, 3)}

CASES = (
    Case("one", "khatri_rao", {}, {"a": (2, 3)}, grads=False, positional=True),
    Case("three", "khatri_rao", {}, _THREE, grads=False, positional=True),
)
