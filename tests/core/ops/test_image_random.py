"""Random image transforms: their distribution. Their effect for a given factor is golden."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError

IMAGE = np.random.RandomState(1).randint(0, 256, (4, 5, 3))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    mx.random.seed(3)


@pytest.mark.parametrize(("side", "axis"), [("left_right", 1), ("top_bottom", 0)])
def test_half_of_the_images_are_flipped(side: str, axis: int) -> None:
    image = mx.nd.array(IMAGE)
    flipped = 0
    for _ in range(200):
        found = getattr(mx.nd.image, f"random_flip_{side}")(image).asnumpy()
        is_flipped = (found == np.flip(IMAGE, axis)).all()
        assert is_flipped or (found == IMAGE).all()
        flipped += is_flipped
    assert 70 < flipped < 130


def test_factors_lie_within_their_limits() -> None:
    ones = mx.nd.ones((1, 1, 3))
    drawn = [
        mx.nd.image.random_brightness(ones, min_factor=0.5, max_factor=2.0).asnumpy()
        for _ in range(200)
    ]
    factors = np.array([image[0, 0, 0] for image in drawn])
    assert all((image == image[0, 0, 0]).all() for image in drawn)
    assert 0.5 <= factors.min() < 0.6
    assert 1.9 < factors.max() < 2.0


@pytest.mark.parametrize("color", ["brightness", "contrast", "saturation", "hue"])
def test_jitter_of_one_color_property_equals_its_own_operator(color: str) -> None:
    image = mx.nd.array(IMAGE, dtype="uint8")
    spreads = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0, color: 0.2}
    low, high = (-0.2, 0.2) if color == "hue" else (0.8, 1.2)
    change = getattr(mx.nd.image, f"random_{color}")
    least, most = 255.0, 0.0
    for _ in range(30):
        found = mx.nd.image.random_color_jitter(image, **spreads).asnumpy()
        assert found.dtype == np.uint8
        least, most = min(least, found.mean()), max(most, found.mean())
    if color == "hue":
        assert least < most
        return
    bounds = sorted(
        change(image, min_factor=factor, max_factor=factor).asnumpy().mean()
        for factor in (low, high)
    )
    assert bounds[0] - 1 <= least < most <= bounds[1] + 1


def test_zero_jitter_changes_nothing() -> None:
    image = mx.nd.array(IMAGE, dtype="uint8")
    same = mx.nd.image.random_color_jitter(image, 0.0, 0.0, 0.0, 0.0)
    np.testing.assert_array_equal(same.asnumpy(), IMAGE)


def test_lighting_adds_one_color_to_all_pixels() -> None:
    image = mx.nd.array(IMAGE)
    added = [
        (mx.nd.image.random_lighting(image, alpha_std=0.1) - image).asnumpy() for _ in range(200)
    ]
    for one in added:
        np.testing.assert_allclose(one, np.broadcast_to(one[0, 0], one.shape), atol=1e-3)
    red = np.array([one[0, 0, 0] for one in added])
    # The first component explains nearly all of it.
    deviation = 0.1 * np.sqrt((55.46 * 0.5675) ** 2 + (4.794 * 0.7192) ** 2 + (1.148 * 0.4009) ** 2)
    assert red.std() == pytest.approx(deviation, rel=0.2)


def test_a_symbol_draws_anew_in_every_pass() -> None:
    symbol = mx.sym.image.random_brightness(mx.sym.Variable("x"), min_factor=0.5, max_factor=1.5)
    executor = symbol.simple_bind(mx.cpu(), x=(1, 1, 3))
    executor.arg_dict["x"][:] = 1
    first, second = (executor.forward()[0].asnumpy().copy() for _ in range(2))
    assert (first != second).all()


def test_limits_out_of_order_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="less than min_factor"):
        mx.nd.image.random_hue(mx.nd.ones((1, 1, 3)), min_factor=1.0, max_factor=0.5)
