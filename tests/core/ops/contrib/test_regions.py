"""Regions of interest and proposals: inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, MXNetError, OutOfRange, ShapeError
from core.ops.contrib.regions import half_away
from oracle.apply import apply, make

POOL = {"pooled_size": (2, 3), "spatial_scale": 0.5}
SMALL = {"scales": (2,), "ratios": (1,), "rpn_post_nms_top_n": 4, "rpn_min_size": 0}


@pytest.mark.parametrize("op", ["ROIPooling", "_contrib_ROIAlign"])
def test_inferred_shapes(op: str) -> None:
    operator = make(op, POOL)
    found = operator.infer_shape([(2, 8, 6, 7), (5, 0)], [None])
    assert found == ([(2, 8, 6, 7), (5, 5)], [(5, 8, 2, 3)])
    with pytest.raises(ShapeError, match=r"rois has shape \(5, 4\), expected \(0, 5\)"):
        operator.infer_shape([(2, 8, 6, 7), (5, 4)], [None])


def test_an_output_needs_height_and_width() -> None:
    with pytest.raises(AttributeValueError, match=r"pooled_size is \(2,\); expected height"):
        make("ROIPooling", {"pooled_size": (2,), "spatial_scale": 1})


def test_channels_that_do_not_match_the_bins_are_refused() -> None:
    align = make("_contrib_ROIAlign", {**POOL, "position_sensitive": True})
    with pytest.raises(ShapeError, match="8 channels; expected a multiple of 6 positions"):
        align.infer_shape([(2, 8, 6, 7), (5, 5)], [None])
    attrs = {"output_dim": 3, "pooled_size": 2, "spatial_scale": 1}
    pooling = make("_contrib_PSROIPooling", attrs)
    with pytest.raises(ShapeError, match="8 channels; expected output_dim 3 times the 4 groups"):
        pooling.infer_shape([(2, 8, 6, 7), (5, 5)], [None])


@pytest.mark.parametrize("op", ["ROIPooling", "_contrib_ROIAlign"])
def test_regions_of_image_minus_1_are_empty_and_of_missing_images_refused(op: str) -> None:
    data = np.ones((2, 1, 6, 7), "float32")
    none = apply(op, POOL, [data, np.float32([[-1, 0, 0, 4, 4]])], [np.ones((1, 1, 2, 3), "f4")])
    assert not none.outputs[0].any()
    assert not none.grads[0].any()
    with pytest.raises(OutOfRange, match="index 2 is outside"):
        apply(op, POOL, [data, np.float32([[2, 0, 0, 4, 4]])])


def test_aligned_regions_need_a_size() -> None:
    data, rois = np.ones((1, 1, 6, 7), "float32"), np.float32([[0, 4, 4, 4, 5]])
    with pytest.raises(MXNetError, match="every region of rois needs width and height"):
        apply("_contrib_ROIAlign", {**POOL, "aligned": True}, [data, rois])


def test_half_precision() -> None:
    data = np.random.default_rng(0).normal(size=(1, 2, 6, 7)).astype("float32")
    rois = np.float32([[0, 1, 1, 11, 9]])
    head = np.ones((1, 2, 2, 3), "float32")
    wide = apply("_contrib_ROIAlign", POOL, [data, rois], [head])
    got = apply("_contrib_ROIAlign", POOL, [x.astype("f2") for x in (data, rois)], [head])
    np.testing.assert_allclose(got.outputs[0], wide.outputs[0], atol=5e-3)
    np.testing.assert_allclose(got.grads[0], wide.grads[0], atol=5e-3)


def test_inferred_shapes_of_proposals() -> None:
    found = make("_contrib_MultiProposal", SMALL).infer_shape(
        [(3, 2, 5, 6), None, None], [None] * 2
    )
    assert found == ([(3, 2, 5, 6), (3, 4, 5, 6), (3, 3)], [(12, 5), (12, 1)])
    with pytest.raises(ShapeError, match="4 channels; expected two for each of 1 anchors"):
        make("_contrib_Proposal", SMALL).infer_shape([(1, 4, 5, 6), None, None], [None] * 2)
    with pytest.raises(ShapeError, match="cls_prob has 3 images"):
        make("_contrib_Proposal", SMALL).infer_shape([(3, 2, 5, 6), None, None], [None] * 2)
    with pytest.raises(AttributeValueError, match=r"ratios is .* expected numbers above 0"):
        make("_contrib_Proposal", {"ratios": (0.0,)})


def test_an_image_larger_than_the_feature_map_is_refused() -> None:
    inputs = [np.zeros(shape, "float32") for shape in ((1, 2, 5, 6), (1, 4, 5, 6))]
    with pytest.raises(MXNetError, match="im_info says 200 by 90 pixels, but cls_prob has 5 by 6"):
        apply("_contrib_Proposal", SMALL, [*inputs, np.float32([[200, 90, 1]])])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_halves_are_rounded_like_in_c(dtype: str) -> None:
    below_half = np.nextafter(np.dtype(dtype).type(0.5), 0)
    numbers = np.array([below_half, 0.5, 1.5, -below_half, -0.5, -2.5], dtype)
    np.testing.assert_array_equal(half_away(np, numbers), [0, 1, 2, 0, -1, -3])
