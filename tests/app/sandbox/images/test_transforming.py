"""Images become the tensors ``mx.image`` makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.transforms import ImageTransform, missing_size, parse_transform
from app.errors.tree import Damaged, Invalid, TooLarge
from app.sandbox.images.transforming import transform_image
from served.pictures import bomb, picture

MEAN, STD = (123.68, 116.779, 103.939), (58.4, 57.1, 57.4)
METHODS = {"nearest": 0, "linear": 1, "cubic": 2, "area": 3, "lanczos": 4, "auto": 9}


def transformed(encoded: bytes, most_pixels: int = 1 << 20, **fields: Any) -> np.ndarray:
    return transform_image(encoded, ImageTransform(**fields), "data", most_pixels)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("interpolation", METHODS)
@pytest.mark.parametrize(("width", "height"), [(61, 40), (40, 61), (24, 24)])
def test_results_match_mx_image(width: int, height: int, interpolation: str, kind: str) -> None:
    encoded = picture(width, height, kind)
    augmenters = mx.image.CreateAugmenter(
        (3, 28, 28),
        resize=32,
        mean=np.array(MEAN),
        std=np.array(STD),
        inter_method=METHODS[interpolation],
    )
    expected = mx.image.imdecode(encoded)
    for augment in augmenters:
        expected = augment(expected)
    found = transformed(
        encoded, resize=32, crop=(28, 28), interpolation=interpolation, mean=MEAN, std=STD
    )
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected.asnumpy().transpose(2, 0, 1))


def test_an_exact_size_in_channels_last() -> None:
    encoded = picture(50, 30)
    expected = mx.image.imresize(mx.image.imdecode(encoded), 20, 25, 1).asnumpy()
    found = transformed(encoded, size=(25, 20), layout="NHWC", dtype="uint8")
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)


def test_colors() -> None:
    encoded = picture(12, 9)
    rgb, bgr = transformed(encoded), transformed(encoded, color="bgr")
    np.testing.assert_array_equal(bgr, rgb[::-1])
    gray = transformed(encoded, color="gray", mean=(10.0,))
    assert gray.shape == (1, 9, 12)
    expected = mx.image.imdecode(encoded, 0).asnumpy()[..., 0] - np.float32(10)
    np.testing.assert_array_equal(gray[0], expected)


def test_a_grey_image_gets_three_channels_where_needed() -> None:
    assert transformed(picture(8, 8, mode="L")).shape == (3, 8, 8)


@pytest.mark.parametrize("encoded", [b"", b"no image", picture(30, 30)[:200], b"\xff\xd8\xff"])
def test_files_that_are_not_images_are_refused(encoded: bytes) -> None:
    with pytest.raises(Damaged, match="data"):
        transformed(encoded)


@pytest.mark.parametrize("side", [2000, 60_000])
def test_a_decompression_bomb_is_not_decoded(side: int) -> None:
    with pytest.raises(TooLarge, match="MODSERVE_MAX_IMAGE_PIXELS"):
        transformed(bomb(side))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"resize": 3, "size": [3, 3]}, "either resize or size"),
        ({"mean": [1.0, 2.0]}, "each of 3 channels"),
        ({"mean": [1.0, 2.0, 3.0], "color": "gray"}, "each of 1 channels"),
        ({"std": [0.0]}, "numbers over 0"),
        ({"std": [2.0], "dtype": "uint8"}, "none with dtype uint8"),
    ],
)
def test_conflicting_fields_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        parse_transform(fields, "transform")


def test_the_default_size_is_that_of_the_input() -> None:
    assert missing_size(ImageTransform(), "data", (1, 3, 20, 30)) == (20, 30)
    assert missing_size(ImageTransform(layout="NHWC"), "data", (1, 20, 30, 3)) == (20, 30)
    assert missing_size(ImageTransform(resize=9), "data", (1, 3, 20, 30)) is None
    with pytest.raises(Invalid, match=r"bound as \(1, 600\)"):
        missing_size(ImageTransform(), "data", (1, 600))
