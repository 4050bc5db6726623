"""Linear algebra."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from oracle.case import Case, Spec, values

_RANDOM = np.random.RandomState(5)


def _well(*batch: int, size: int = 3) -> Spec:
    """Return matrices that are far from singular."""
    matrices = _RANDOM.normal(size=(*batch, size, size)) * 0.5 + 2 * np.eye(size)
    return values(matrices.round(4).tolist())


def _positive(*batch: int, size: int = 3) -> Spec:
    roots = _RANDOM.normal(size=(*batch, size, size))
    matrices = roots @ roots.swapaxes(-1, -2) + np.eye(size)
    return values(matrices.round(4).tolist())


def _triangular(name: str, op: str, **attrs: Any) -> Case:
    inputs = {"A": _well(2), "B": (2, 4, 3) if attrs["rightside"] else (2, 3, 4)}
    return Case(f"{name}", op, {"alpha": 1.5, **attrs}, inputs)


CASES = (
    Case("gemm2", "_linalg_gemm2", {}, {"A": (3, 4), "B": (4, 2)}),
    Case(
        "gemm2_turned",
        "linalg_gemm2",
        {"transpose_a": True, "transpose_b": True, "alpha": 2.5},
        {"A": (2, 4, 3), "B": (2, 5, 4)},
    ),
    Case("gemm2_axis", "_linalg_gemm2", {"axis": -3}, {"A": (2, 3, 5, 4), "B": (2, 4, 5, 2)}),
    Case("gemm", "_linalg_gemm", {}, {"A": (3, 4), "B": (4, 2), "C": (3, 2)}),
    Case(
        "gemm_turned",
        "_linalg_gemm",
        {"transpose_b": True, "alpha": 2.0, "beta": -0.5},
        {"A": (2, 3, 4), "B": (2, 5, 4), "C": (2, 3, 5)},
    ),
    Case("gemm_axis", "linalg_gemm", {"axis": 0}, {"A": (3, 5, 4), "B": (4, 5, 2), "C": (3, 5, 2)}),
    Case("syrk", "_linalg_syrk", {}, {"A": (2, 3, 4)}),
    Case("syrk_turned", "_linalg_syrk", {"transpose": True, "alpha": 0.5}, {"A": (3, 4)}),
    *(
        _triangular(
            f"{op}_{'turned' * turned}_{'right' * right}_{'lower' * lower}",
            f"_linalg_{op}",
            transpose=turned,
            rightside=right,
            lower=lower,
        )
        for op in ("trmm", "trsm")
        for turned, right, lower in itertools.product((False, True), repeat=3)
    ),
    Case("inverse", "_linalg_inverse", {}, {"A": _well(2)}),
    # Cholesky's gradient is that of a symmetric matrix.
    Case("potrf", "_linalg_potrf", {}, {"A": _positive(2)}, numeric=False),
    Case("potrf_upper", "_linalg_potrf", {"lower": False}, {"A": _positive(2)}, numeric=False),
    Case("potri", "_linalg_potri", {}, {"A": _well(2)}),
    Case("potri_upper", "_linalg_potri", {"lower": False}, {"A": _well(2)}),
    Case("sumlogdiag", "_linalg_sumlogdiag", {}, {"A": _well(2)}),
    Case("sumlogdiag_one", "_linalg_sumlogdiag", {}, {"A": _well()}),
    Case("det", "_linalg_det", {}, {"A": _well(2, 2)}),
    Case("det_one", "_linalg_det", {}, {"A": _well()}),
    Case("slogdet", "_linalg_slogdet", {}, {"A": _well(3)}),
    *(
        case
        for offset in (0, 1, -2)
        for case in (
            Case(
                f"extractdiag_{offset}", "_linalg_extractdiag", {"offset": offset}, {"A": (2, 4, 4)}
            ),
            Case(f"makediag_{offset}", "_linalg_makediag", {"offset": offset}, {"A": (2, 3)}),
        )
    ),
    Case("gelqf", "_linalg_gelqf", {}, {"A": (2, 3, 5)}),
    Case("gelqf_square", "_linalg_gelqf", {}, {"A": _well()}),
)
