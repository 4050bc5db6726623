"""Moments: errors."""

from __future__ import annotations

import pytest

from core.errors import ShapeError
from oracle.apply import make


def test_axes_must_be_given() -> None:
    with pytest.raises(ShapeError, match="name all axes"):
        make("moments", {}).infer_shape([(2, 3)], [None, None])
