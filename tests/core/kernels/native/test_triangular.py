"""The solver of triangular systems in C against NumPy in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import core as mx
from core.kernels.native import is_available
from core.kernels.native.triangular import solve_triangular

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)


def systems(batch: tuple[int, ...], size: int, columns: int, *, rightside: bool) -> list:
    """Return well conditioned matrices with both triangles filled, and right sides."""
    random = np.random.RandomState(2)
    matrix = random.randn(*batch, size, size) / size + 2 * np.eye(size)
    shape = (columns, size) if rightside else (size, columns)
    return [matrix.astype("float32"), random.randn(*batch, *shape).astype("float32")]


@pytest.mark.parametrize(
    ("lower", "transpose", "rightside"), list(itertools.product([True, False], repeat=3))
)
@pytest.mark.parametrize(
    ("batch", "size", "columns"),
    [((), 1, 1), ((3,), 4, 65), ((2, 2), 7, 64), ((), 33, 3), ((5,), 66, 130)],
)
def test_solutions_match_numpy(
    batch: tuple[int, ...],
    size: int,
    columns: int,
    lower: bool,
    transpose: bool,
    rightside: bool,
) -> None:
    matrix, sides = systems(batch, size, columns, rightside=rightside)
    triangle = (np.tril if lower else np.triu)(matrix).astype("float64")
    if transpose != rightside:
        triangle = triangle.swapaxes(-1, -2)
    right = sides.swapaxes(-1, -2) if rightside else sides
    expected = np.linalg.solve(triangle, right)
    if rightside:
        expected = expected.swapaxes(-1, -2)
    kept = sides.copy()
    out = np.full_like(sides, np.nan)
    where = {"lower": lower, "transpose": transpose, "rightside": rightside}
    assert solve_triangular(matrix, sides, out, **where)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(sides, kept)
    assert solve_triangular(matrix, sides, sides, **where)
    np.testing.assert_array_equal(sides, out)


def test_other_arrays_are_left_to_the_caller() -> None:
    matrix, sides = systems((2,), 8, 5, rightside=False)
    where = {"lower": True, "transpose": False, "rightside": False}
    wide, strided = sides.astype("float64"), np.repeat(sides, 2, -1)[..., ::2]
    for other in (wide, strided):
        assert not solve_triangular(matrix, other, np.empty_like(sides), **where)
    assert not solve_triangular(matrix.swapaxes(-1, -2), sides, np.empty_like(sides), **where)


def test_float64_is_solved_by_array_operations() -> None:
    matrix, sides = systems((2,), 9, 4, rightside=False)
    single = mx.nd.linalg.trsm(mx.nd.array(matrix), mx.nd.array(sides), alpha=0.5)
    double = mx.nd.linalg.trsm(
        *(mx.nd.array(one, dtype="float64") for one in (matrix, sides)), alpha=0.5
    )
    np.testing.assert_allclose(single.asnumpy(), double.asnumpy(), rtol=1e-5, atol=1e-6)
