"""Eigenvectors: errors."""

from __future__ import annotations

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
