"""The column-wise Kronecker product: errors."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make


def test_matrices_of_different_widths_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"have \[3, 4\] columns"):
        make("khatri_rao", {"num_args": 2}).infer_shape([(2, 3), (2, 4)], [None])
    with pytest.raises(ShapeError, match="takes matrices"):
        make("khatri_rao", {"num_args": 1}).infer_shape([(2, 3, 4)], [None])
