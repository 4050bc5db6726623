"""Sampling images along grids: inference, errors, points outside."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import apply, make

TRANSFORMER = {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (4, 5)}


def test_inferred_shapes() -> None:
    grid = make("GridGenerator", {"transform_type": "affine", "target_shape": (4, 5)})
    assert grid.infer_shape([(3, 0)], [None]) == ([(3, 6)], [(3, 2, 4, 5)])
    sampler = make("BilinearSampler", {"cudnn_off": True})
    found = sampler.infer_shape([(3, 2, 7, 8), (0, 0, 4, 5)], [None])
    assert found == ([(3, 2, 7, 8), (3, 2, 4, 5)], [(3, 2, 4, 5)])
    transformer = make("SpatialTransformer", TRANSFORMER)
    assert transformer.infer_shape([(3, 2, 7, 8), None], [None])[0][1] == (3, 6)
    with pytest.raises(ShapeError, match=r"data has shape \(3, 5\), expected \(0, 6\)"):
        grid.infer_shape([(3, 5)], [None])


@pytest.mark.parametrize("shape", [(4,), (0, 5), (4, 5, 6)])
def test_target_shape_must_have_height_and_width(shape) -> None:
    with pytest.raises(AttributeValueError, match="expected height and width"):
        make("GridGenerator", {"transform_type": "affine", "target_shape": shape})
    transformer = make("SpatialTransformer", {**TRANSFORMER, "target_shape": shape})
    with pytest.raises(AttributeValueError, match="expected height and width"):
        transformer.infer_shape([(3, 2, 7, 8), None], [None])


def test_points_outside_get_no_gradient() -> None:
    """Neither the other image nor this one's border gets any of it."""
    data = np.ones((2, 1, 3, 3), "float32")
    loc = np.float32([[1, 0, 9, 0, 1, 9], [0.5, 0, 0, 0, 0.5, 0]])
    got = apply("SpatialTransformer", TRANSFORMER, [data, loc], [np.ones((2, 1, 4, 5), "f4")])
    assert not got.outputs[0][0].any()
    assert not got.grads[0][0].any()
    assert not got.grads[1][0].any()
    assert got.grads[0][1].sum() == pytest.approx(20)
    sampler = apply("BilinearSampler", {}, [data, np.full((2, 2, 4, 5), np.nan, "float32")])
    assert sampler.outputs[0].shape == (2, 1, 4, 5)
