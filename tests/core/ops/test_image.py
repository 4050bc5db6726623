"""Operators of images: errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import ShapeError
from oracle.apply import apply, make


@pytest.mark.parametrize(("op", "axis"), [("left_right", 1), ("top_bottom", 0)])
def test_images_of_odd_size_are_flipped(op: str, axis: int) -> None:
    """MXNet leaves the middle unwritten."""
    image = np.arange(45, dtype="uint8").reshape(3, 5, 3)
    got = apply(f"_image_flip_{op}", {}, [image]).outputs[0]
    np.testing.assert_array_equal(got, np.flip(image, axis))


def test_inputs_that_are_not_images_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected 3 or 4 dimensions"):
        make("_image_to_tensor", {}).infer_shape([(4, 5)], [None])
    with pytest.raises(ShapeError, match="expected 3 dimensions"):
        make("_image_flip_left_right", {}).infer_shape([(2, 4, 5, 3)], [None])


def test_a_crop_must_lie_within_the_image() -> None:
    crop = make("_image_crop", {"x": 1, "y": 0, "width": 5, "height": 4})
    with pytest.raises(ShapeError, match="columns 1 to 6 do not lie in data"):
        crop.infer_shape([(4, 5, 3)], [None])


def test_there_must_be_a_mean_for_each_channel() -> None:
    with pytest.raises(ShapeError, match=r"mean is \(0.1, 0.2\); expected one number, or 3"):
        make("_image_normalize", {"mean": (0.1, 0.2)}).infer_shape([(3, 4, 5)], [None])
