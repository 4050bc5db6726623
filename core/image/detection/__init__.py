"""Images with bounding boxes (``mx.image.detection``).

A label is an array (objects, 5 or more): class, left, top, right, bottom as fractions of the image,
and any further numbers. Augmenters transform the boxes together with the image.
"""

from __future__ import annotations

from .augmenters import (
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomSelectAug,
)
from .creation import CreateDetAugmenter, CreateMultiRandCropAugmenter
from .det_iter import ImageDetIter
from .regions import DetRandomCropAug, DetRandomPadAug

__all__ = [
    "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
    "ImageDetIter",
]
