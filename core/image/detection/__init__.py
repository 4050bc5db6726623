"""Images with boxes around objects (``mx.image.detection``).

A label is an array (objects, 5 or more): class, left, top, right, bottom, in parts of the image,
and anything further. What changes the image changes its boxes too.
"""

from __future__ import annotations

from core.image.detection.augmenters import (
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomSelectAug,
)
from core.image.detection.creation import CreateDetAugmenter, CreateMultiRandCropAugmenter
from core.image.detection.det_iter import ImageDetIter
from core.image.detection.regions import DetRandomCropAug, DetRandomPadAug

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
