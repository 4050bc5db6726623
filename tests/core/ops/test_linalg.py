"""Linear algebra: inference, errors, and singular matrices."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import MXNetError, ShapeError
from oracle.apply import apply, make


def infer(op: str, *inputs, **attrs):
    operator = make(f"_linalg_{op}", attrs)
    return operator.infer_shape(list(inputs), [None] * len(operator.output_names()))


def test_inferred_shapes_of_products() -> None:
    assert infer("gemm2", (2, 3, 5, 4), (2, 4, 5, 2), axis=1)[1] == [(2, 3, 5, 2)]
    assert infer("gemm", (3, 4), (4, 2), None)[0][2] == (3, 2)
    with pytest.raises(ShapeError, match="summed over 4 and 5 elements"):
        infer("gemm2", (3, 4), (5, 2))
    with pytest.raises(ShapeError, match="the same number of dimensions"):
        infer("gemm2", (3, 4), (2, 4, 2))
    with pytest.raises(ShapeError, match="the columns lie along the last axis"):
        infer("gemm2", (3, 4), (4, 2), axis=-1)


def test_matrices_must_be_square() -> None:
    assert infer("slogdet", (2, 5, 3, 3))[1] == [(2, 5), (2, 5)]
    assert infer("det", (3, 3))[1] == [(1,)]
    for op in ("inverse", "potrf", "det", "sumlogdiag", "extractdiag"):
        with pytest.raises(ShapeError, match="expected square matrices"):
            infer(op, (2, 3, 4))
    assert infer("trsm", None, (2, 3, 4))[0] == [(2, 3, 3), (2, 3, 4)]
    assert infer("trsm", None, (2, 3, 4), rightside=True)[0][0] == (2, 4, 4)


def test_factors_of_rectangular_matrices() -> None:
    assert infer("gelqf", (2, 3, 5)) == ([(2, 3, 5)], [(2, 3, 5), (2, 3, 3)])
    assert infer("gelqf", None) == ([None], [None, None])
    with pytest.raises(ShapeError, match="no more rows than columns"):
        infer("gelqf", (2, 5, 3))
    with pytest.raises(MXNetError, match=r"_linalg_gelqf: .*float16"):
        apply("_linalg_gelqf", {}, [np.eye(2, dtype="float16")])


def test_singular_and_indefinite_matrices_are_refused() -> None:
    with pytest.raises(MXNetError, match="_linalg_inverse: Singular matrix"):
        apply("_linalg_inverse", {}, [np.zeros((2, 2), "float32")])
    with pytest.raises(MXNetError, match=r"_linalg_potrf: .*not positive definite"):
        apply("_linalg_potrf", {}, [-np.eye(2, dtype="float32")])
    with pytest.raises(MXNetError, match=r"_linalg_det: .*float16"):
        apply("_linalg_det", {}, [np.eye(2, dtype="float16")])
