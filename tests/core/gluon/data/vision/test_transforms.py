"""Random transforms, and invalid arguments; golden tests cover the rest."""

from __future__ import annotations

import random

import numpy as np
import pytest

import core as mx
from core.gluon.data.vision import transforms
from oracle.topics import gluon_data

PIXELS = gluon_data.image()
IMAGE = mx.nd.array(PIXELS, dtype="uint8")


def test_adjacent_hybrid_transforms_are_chained() -> None:
    steps = [transforms.Resize(8), transforms.ToTensor(), transforms.Rotate(5), transforms.Cast()]
    composed = transforms.Compose(steps)
    assert len(steps) == 4
    kinds = [type(one).__name__ for one in composed]
    assert kinds == ["HybridSequential", "Rotate", "Cast"]
    assert len(transforms.Compose([])) == 0


def test_a_chain_gives_the_same_when_hybridized() -> None:
    chain = transforms.Compose([transforms.Resize(8), transforms.ToTensor()])[0]
    expected = chain(IMAGE).asnumpy()
    chain.hybridize()
    np.testing.assert_array_equal(chain(IMAGE).asnumpy(), expected)


@pytest.mark.parametrize(
    ("transform", "axis"),
    [(transforms.RandomFlipLeftRight(), 1), (transforms.RandomFlipTopBottom(), 0)],
)
def test_random_flips_give_both_orientations(transform: mx.gluon.Block, axis: int) -> None:
    mx.random.seed(0)
    seen = {transform(IMAGE).asnumpy().tobytes() for _ in range(40)}
    assert seen == {PIXELS.tobytes(), np.flip(PIXELS, axis).tobytes()}


def test_random_brightness_stays_within_its_limits() -> None:
    mx.random.seed(0)
    image = mx.nd.ones((2, 2, 3))
    factors = [transforms.RandomBrightness(0.3)(image).asnumpy()[0, 0, 0] for _ in range(50)]
    assert 0.7 <= min(factors) < 0.8 < 1.2 < max(factors) <= 1.3
    assert transforms.RandomBrightness(3)._limits == {"min_factor": 0, "max_factor": 4}


@pytest.mark.parametrize(
    "transform",
    [
        transforms.RandomContrast(0.5),
        transforms.RandomSaturation(0.5),
        transforms.RandomHue(0.5),
        transforms.RandomColorJitter(0.2, 0.2, 0.2, 0.2),
        transforms.RandomLighting(0.5),
    ],
)
def test_random_color_transforms_change_the_image(transform: mx.gluon.Block) -> None:
    mx.random.seed(0)
    first, second = transform(IMAGE).asnumpy(), transform(IMAGE).asnumpy()
    assert first.shape == PIXELS.shape
    assert first.dtype == np.uint8
    assert (first != second).any()


def test_random_apply_takes_a_list() -> None:
    random.seed(0)
    both = transforms.RandomApply([transforms.Resize(5), transforms.ToTensor()], p=1)
    assert both(IMAGE).shape == (3, 5, 5)
    assert transforms.RandomApply(transforms.ToTensor(), p=0)(IMAGE) is IMAGE


def test_rotation_needs_float_tensors_and_valid_limits() -> None:
    for transform in (transforms.Rotate(3), transforms.RandomRotation((-1, 1))):
        with pytest.raises(TypeError, match="only supports float32, got uint8"):
            transform(IMAGE)
    with pytest.raises(ValueError, match="ordered tuple"):
        transforms.RandomRotation((5, -5))
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        transforms.RandomRotation((-5, 5), rotate_with_proba=2)
