"""Random matrices with real eigenvalues."""

from __future__ import annotations

import numpy as np

from core.testing import matrices


def test_eigenvalues_are_real() -> None:
    np.random.seed(1)
    for matrix in matrices.new_matrix_with_real_eigvals_nd((2, 3, 4, 4)).reshape(-1, 4, 4):
        values = np.linalg.eigvals(matrix)
        np.testing.assert_allclose(values.imag, 0, atol=1e-6)
        assert np.abs(values).max() <= 10.001
    assert matrices.new_matrix_with_real_eigvals_nd((3, 3)).shape == (3, 3)


def test_symmetric_and_orthonormal_matrices() -> None:
    np.random.seed(2)
    symmetric = matrices.new_sym_matrix_with_real_eigvals_nd((2, 3, 3))
    np.testing.assert_allclose(symmetric, symmetric.swapaxes(1, 2), atol=1e-9)
    basis = matrices.new_orthonormal_matrix_2d(5)
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-9)
