"""The default list of augmenters of images and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import UsageError
from ..augmenters import CastAug, ForceResizeAug, ResizeAug
from ..creation import color_augmenters
from .augmenters import (
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomSelectAug,
)
from .regions import DetRandomCropAug, DetRandomPadAug

__all__ = ["CreateDetAugmenter", "CreateMultiRandCropAugmenter"]


def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """Return an augmenter that crops in one of several ways, chosen at random.

    Args:
        min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts: as of
            ``DetRandomCropAug``, or lists of these; a single value applies to all ways.
        skip_prob: probability of not cropping.

    Raises:
        UsageError: lists of different lengths.
    """
    given = {
        "min_object_covered": min_object_covered,
        "aspect_ratio_range": aspect_ratio_range,
        "area_range": area_range,
        "min_eject_coverage": min_eject_coverage,
        "max_attempts": max_attempts,
    }
    lists = {name: one if isinstance(one, list) else [one] for name, one in given.items()}
    count = max(len(one) for one in lists.values())
    for name, one in lists.items():
        if len(one) not in (1, count):
            raise UsageError(f"{name} has {len(one)} values; expected one or {count}")
    ways = [
        DetRandomCropAug(**{name: one[number % len(one)] for name, one in lists.items()})
        for number in range(count)
    ]
    return DetRandomSelectAug(ways, skip_prob=skip_prob)


def CreateDetAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    pad_val: Any = (127, 127, 127),
) -> list[DetAugmenter]:
    """Return the augmenters that make (height, width, channels) float32 of any image.

    Args:
        data_shape: (channels, height, width) of a batch's images.
        resize: length of the shorter edge before any other change, if above 0.
        rand_crop, rand_pad: probabilities of cropping and of padding.
        rand_mirror: mirror each image with probability 1/2.
        mean, std, brightness, contrast, saturation, hue, pca_noise, rand_gray, inter_method: as of
            ``mx.image.CreateAugmenter``.
        min_object_covered, min_eject_coverage: of cropping; see ``DetRandomCropAug``.
        aspect_ratio_range, area_range, max_attempts: of both.
        pad_val: value of the padding.
    """
    augmenters: list[DetAugmenter] = []
    if resize > 0:
        augmenters.append(DetBorrowAug(ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        augmenters.append(
            CreateMultiRandCropAugmenter(
                min_object_covered,
                aspect_ratio_range,
                area_range,
                min_eject_coverage,
                max_attempts,
                skip_prob=1 - rand_crop,
            )
        )
    if rand_mirror > 0:
        augmenters.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        room = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        augmenters.append(DetRandomSelectAug([room], 1 - rand_pad))
    size = (data_shape[2], data_shape[1])
    plain = [ForceResizeAug(size, inter_method), CastAug()]
    jitter = (brightness, contrast, saturation)
    plain += color_augmenters(jitter, hue, pca_noise, rand_gray, mean, std)
    return augmenters + [DetBorrowAug(one) for one in plain]
