"""``mx.image`` under MXNet's import path, ``mxnet.image.image``."""

from __future__ import annotations

from .augmenters import (
    Augmenter,
    CastAug,
    CenterCropAug,
    ForceResizeAug,
    HorizontalFlipAug,
    RandomCropAug,
    RandomOrderAug,
    RandomSizedCropAug,
    ResizeAug,
    SequentialAug,
)
from .color_augmenters import (
    BrightnessJitterAug,
    ColorJitterAug,
    ColorNormalizeAug,
    ContrastJitterAug,
    HueJitterAug,
    LightingAug,
    RandomGrayAug,
    SaturationJitterAug,
    color_normalize,
)
from .creation import CreateAugmenter
from .cropping import (
    center_crop,
    fixed_crop,
    random_crop,
    random_size_crop,
    resize_short,
    scale_down,
)
from .image_iter import ImageIter
from .reading import choose_interpolation as _get_interp_method
from .reading import copyMakeBorder, imdecode, imread, imresize
from .rotation import imrotate, random_rotate

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "ImageIter",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
    "_get_interp_method",
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
]
