"""Inverses and determinants in C against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError
from core.kernels.native import is_available
from core.kernels.native.lu import determine, invert

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)

SHAPES = [(1, 1), (4, 2, 2), (2, 3, 7, 7), (3, 32, 32), (2, 65, 65), (160, 160)]


def matrices(shape: tuple[int, ...]) -> np.ndarray:
    """Return matrices that need pivoting: rows with a dominant diagonal, in random order."""
    random = np.random.RandomState(4)
    size = shape[-1]
    base = 2 * np.eye(size) + random.randn(*shape) / (2 * size)
    return np.ascontiguousarray(base[..., random.permutation(size), :], "float32")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_inverses_match_numpy(shape: tuple[int, ...]) -> None:
    given = matrices(shape)
    out = np.full_like(given, np.nan)
    kept = given.copy()
    assert invert(given, out)
    np.testing.assert_allclose(out, np.linalg.inv(given.astype("float64")), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(given, kept)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_determinants_match_numpy(shape: tuple[int, ...]) -> None:
    given = matrices(shape)
    found = determine(given)
    assert found is not None
    signs, logarithms = np.linalg.slogdet(given.astype("float64"))
    np.testing.assert_array_equal(found[0], signs)
    np.testing.assert_allclose(found[1], logarithms, rtol=1e-5, atol=1e-5)


def test_swaps_of_rows_change_the_sign() -> None:
    given = np.stack([np.eye(40)[[1, 0, *range(2, 40)]], np.eye(40)])
    found = determine(given.astype("float32"))
    assert found is not None
    np.testing.assert_array_equal(found, [[-1, 1], [0, 0]])


def test_singular_matrices_have_determinant_0_and_no_inverse() -> None:
    given = matrices((3, 40, 40))
    given[1, :, 35] = 0
    assert not invert(given, np.empty_like(given))
    found = determine(given)
    assert found is not None
    assert (found[0][1], found[1][1]) == (0, -np.inf)
    assert abs(found[0][[0, 2]]).tolist() == [1, 1]
    assert mx.nd.linalg.det(mx.nd.array(given)).asnumpy()[1] == 0
    with pytest.raises(MXNetError, match=r"_linalg_inverse: .*[Ss]ingular"):
        mx.nd.linalg.inverse(mx.nd.array(given)).asnumpy()


def test_nan_stays_in_its_matrix() -> None:
    given = matrices((3, 20, 20))
    given[1, 4, 5] = np.nan
    found = determine(given)
    assert found is not None
    np.testing.assert_array_equal(np.isnan(found), [[False, True, False]] * 2)


def test_other_arrays_are_left_to_the_caller() -> None:
    given = matrices((2, 8, 8))
    assert determine(given.astype("float64")) is None
    assert determine(given.swapaxes(-1, -2)) is None
    assert determine(matrices((300, 300))) is None
    assert not invert(given, np.empty((2, 8, 8)))
