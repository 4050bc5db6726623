"""Factors of rectangular matrices: errors."""

from __future__ import annotations

import pytest

import core as mx
from core.errors import MXNetError, ShapeError
from oracle.apply import make


def test_matrices_with_more_rows_than_columns_are_refused() -> None:
    with pytest.raises(ShapeError, match="no more rows than columns"):
        make("_linalg_gelqf", {}).infer_shape([(3, 2)], [None, None])


def test_half_precision_is_refused() -> None:
    with pytest.raises(MXNetError, match="_linalg_gelqf"):
        mx.nd.linalg.gelqf(mx.nd.ones((2, 2), dtype="float16"))
