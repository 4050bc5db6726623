"""Transformations of images as blocks, to be given to ``Dataset.transform_first``.

Unless stated otherwise they take an image (height, width, channels). Those based on operators of
``mx.nd.image`` also take stacked images if the operator does.
"""

from __future__ import annotations

from .color_transforms import (
    RandomBrightness,
    RandomColorJitter,
    RandomContrast,
    RandomHue,
    RandomLighting,
    RandomSaturation,
)
from .composition import Compose, RandomApply
from .conversion import Cast, Normalize, ToTensor
from .place_transforms import (
    CenterCrop,
    CropResize,
    RandomFlipLeftRight,
    RandomFlipTopBottom,
    RandomResizedCrop,
    RandomRotation,
    Resize,
    Rotate,
)

__all__ = [
    "Cast",
    "CenterCrop",
    "Compose",
    "CropResize",
    "Normalize",
    "RandomApply",
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomHue",
    "RandomLighting",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSaturation",
    "Resize",
    "Rotate",
    "ToTensor",
]
