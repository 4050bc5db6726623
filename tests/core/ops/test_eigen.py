"""Eigenvectors: errors."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError, ShapeError
from oracle.apply import make


def test_matrices_that_are_not_square_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected square matrices"):
        make("_linalg_syevd", {}).infer_shape([(2, 3)], [None, None])


def test_half_precision_is_refused() -> None:
    with pytest.raises(MXNetError, match="_linalg_syevd"):
        mx.nd.linalg.syevd(mx.nd.ones((2, 2), dtype="float16"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_loss_of_equal_eigenvalues_has_the_gradient_that_mxnet_gives(dtype: str) -> None:
    matrix = mx.nd.array(np.diag([1.0, 1.0, 2.0]), dtype=dtype)
    matrix.attach_grad()
    with mx.autograd.record():
        _, values = mx.nd.linalg.syevd(matrix)
        loss = (values * mx.nd.array([1, 2, 3], dtype=dtype)).sum()
    loss.backward()
    np.testing.assert_array_equal(matrix.grad.asnumpy(), np.diag([1.0, 2.0, 3.0]))
