"""Random matrices with real eigenvalues, for tests of linear algebra."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..types import Array, Shape

__all__ = [
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
]

_WELL_CONDITIONED = 3


def new_matrix_with_real_eigvals_2d(n: int) -> Array:
    """Return a well-conditioned n x n matrix with real eigenvalues between -10 and 10."""
    while True:
        direction = np.random.uniform(-1, 1, (n, 1))
        direction /= np.linalg.norm(direction)
        # A Householder reflection is orthogonal, so that the diagonal decides the condition.
        reflection = np.eye(n) - 2 * direction @ direction.T
        basis = reflection @ np.diag(np.random.uniform(-1, 1, n))
        if np.linalg.cond(basis, 2) < _WELL_CONDITIONED:
            break
    values = np.diag(np.random.uniform(-10, 10, n))
    matrix: Array = np.linalg.inv(basis) @ values @ basis
    return matrix


def new_matrix_with_real_eigvals_nd(shape: Shape) -> Array:
    """Return such matrices in an array of this shape."""
    return _stack(new_matrix_with_real_eigvals_2d, shape)


def new_orthonormal_matrix_2d(n: int) -> Array:
    """Return an n x n matrix whose columns are orthonormal."""
    random = np.random.randn(n, n)
    matrix: Array = np.linalg.qr(random.T @ random)[0]
    return matrix


def new_sym_matrix_with_real_eigvals_2d(n: int) -> Array:
    """Return a symmetric n x n matrix with eigenvalues between -10 and 10."""
    basis = new_orthonormal_matrix_2d(n)
    matrix: Array = basis.T @ np.diag(np.random.uniform(-10, 10, n)) @ basis
    return matrix


def new_sym_matrix_with_real_eigvals_nd(shape: Shape) -> Array:
    """Return symmetric matrices in an array of this shape."""
    return _stack(new_sym_matrix_with_real_eigvals_2d, shape)


def _stack(make: Callable[[int], Array], shape: Shape) -> Array:
    count = int(np.prod(shape[:-2]))
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)
