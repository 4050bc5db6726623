"""Pooling_v1: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


def test_inferred_shapes() -> None:
    pool = make("Pooling_v1", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 0)})
    assert pool.infer_shape([(2, 3, 7, 8)], [None])[1] == [(2, 3, 4, 3)]
    whole = make("Pooling_v1", {"global_pool": True})
    assert whole.infer_shape([(2, 3, 7, 8)], [None])[1] == [(2, 3, 1, 1)]


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="one entry for each of the 2 axes"):
        make("Pooling_v1", {"kernel": (3, 3), "pad": (1,)})
    with pytest.raises(ShapeError, match=r"expected \(batch, channels, height, width\)"):
        make("Pooling_v1", {"kernel": (3,)}).infer_shape([(2, 3, 7)], [None])
    with pytest.raises(ShapeError, match="the kernel spans 9"):
        make("Pooling_v1", {"kernel": (9, 3)}).infer_shape([(2, 3, 7, 8)], [None])
