"""Diagonals: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make


def infer(op: str, shape, offset: int):
    return make(f"_linalg_{op}", {"offset": offset}).infer_shape([shape], [None])


def test_diagonals() -> None:
    assert infer("extractdiag", (2, 4, 4), -1)[1] == [(2, 3)]
    assert infer("makediag", (2, 4), 2)[1] == [(2, 6, 6)]
    with pytest.raises(ShapeError, match="offset is 4; A has 4 rows"):
        infer("extractdiag", (4, 4), 4)
