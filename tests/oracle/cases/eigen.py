"""Eigenvectors of symmetric matrices."""

from __future__ import annotations

from oracle.case import Case, values

_A = [[2.0, 0.5, -1.0], [0.5, -1.0, 0.25], [-1.0, 0.25, 3.0]]
_B = [[1.0, -0.5, 2.0], [-0.5, 4.0, 0.75], [2.0, 0.75, -2.0]]

# The derivative is that of symmetric changes; MXNet reads one triangle.
CASES = (
    Case("eigen", "_linalg_syevd", {}, {"A": values(_A)}, numeric=False),
    Case("eigen_stack", "_linalg_syevd", {}, {"A": values([_A, _B])}, numeric=False),
    Case("eigen_double", "_linalg_syevd", {}, {"A": values(_B, "float64")}, numeric=False),
)
