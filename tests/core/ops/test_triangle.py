"""Triangles of matrices: errors."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make


def test_refuses_what_has_no_triangle() -> None:
    with pytest.raises(ShapeError, match="expected square matrices"):
        make("_linalg_extracttrian", {}).infer_shape([(2, 3)], [None])
    with pytest.raises(ShapeError, match="offset is 3; A has 3 rows"):
        make("_linalg_extracttrian", {"offset": 3}).infer_shape([(3, 3)], [None])
    with pytest.raises(ShapeError, match="no triangle has 4 elements"):
        make("_linalg_maketrian", {}).infer_shape([(4,)], [None])
