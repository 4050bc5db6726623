"""The default list of augmenters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from ..ndarray import NDArray
from .augmenters import (
    Augmenter,
    CastAug,
    CenterCropAug,
    HorizontalFlipAug,
    RandomCropAug,
    RandomSizedCropAug,
    ResizeAug,
)
from .color_augmenters import (
    ColorJitterAug,
    ColorNormalizeAug,
    HueJitterAug,
    LightingAug,
    RandomGrayAug,
)

__all__ = ["CreateAugmenter", "color_augmenters", "per_channel"]

# Of ImageNet's RGB values from 0 to 255; the components are those of AlexNet (Krizhevsky et al.,
# 2012, 4.1).
_IMAGENET = {
    "mean": np.array([123.68, 116.28, 103.53]),
    "std": np.array([58.395, 57.12, 57.375]),
}
_EIGENVALUES = np.array([55.46, 4.794, 1.148])
_EIGENVECTORS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
_LEAST_AREA = 0.08
_RATIOS = (3.0 / 4.0, 4.0 / 3.0)


def CreateAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Augmenter]:
    """Return the augmenters that make (height, width, channels) float32 of any image.

    Args:
        data_shape: (channels, height, width) of a batch's images.
        resize: length of the shorter edge before cropping, if above 0.
        rand_crop: crop at a random place instead of the center.
        rand_resize: crop a part of random size and shape; needs ``rand_crop``.
        rand_mirror: mirror each image with probability 1/2.
        mean, std: of the channels; True for ImageNet's.
        brightness, contrast, saturation, hue: largest relative random change.
        pca_noise: see ``LightingAug``.
        rand_gray: probability of grey.
        inter_method: see ``imresize``.

    Raises:
        UsageError: ``rand_resize`` without ``rand_crop``, or a mean or std of the wrong size.
    """
    augmenters: list[Augmenter] = []
    if resize > 0:
        augmenters.append(ResizeAug(resize, inter_method))
    size = (data_shape[2], data_shape[1])
    if rand_resize:
        if not rand_crop:
            raise UsageError("rand_resize needs rand_crop=True")
        augmenters.append(RandomSizedCropAug(size, _LEAST_AREA, _RATIOS, inter_method))
    elif rand_crop:
        augmenters.append(RandomCropAug(size, inter_method))
    else:
        augmenters.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        augmenters.append(HorizontalFlipAug(0.5))
    augmenters.append(CastAug())
    jitter = (brightness, contrast, saturation)
    return augmenters + color_augmenters(jitter, hue, pca_noise, rand_gray, mean, std)


def color_augmenters(
    jitter: tuple[float, float, float],
    hue: float,
    pca_noise: float,
    rand_gray: float,
    mean: Any,
    std: Any,
) -> list[Augmenter]:
    """Return the augmenters of colors; see ``CreateAugmenter`` for the arguments."""
    augmenters: list[Augmenter] = []
    if any(jitter):
        augmenters.append(ColorJitterAug(*jitter))
    if hue:
        augmenters.append(HueJitterAug(hue))
    if pca_noise > 0:
        augmenters.append(LightingAug(pca_noise, _EIGENVALUES, _EIGENVECTORS))
    if rand_gray > 0:
        augmenters.append(RandomGrayAug(rand_gray))
    mean, std = per_channel("mean", mean), per_channel("std", std)
    if mean is not None or std is not None:
        augmenters.append(ColorNormalizeAug(mean, std))
    return augmenters


def per_channel(name: str, given: Any) -> Any:
    """Return a mean or std, True meaning ImageNet's; raise UsageError for anything else."""
    if given is None:
        return None
    if given is True:
        return _IMAGENET[name]
    if not isinstance(given, (np.ndarray, NDArray)) or given.shape[0] not in (1, 3):
        raise UsageError(f"{name} is {given!r}; expected an array of 1 or 3 numbers, or True")
    return given
