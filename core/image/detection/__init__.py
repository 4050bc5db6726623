"""Images with boxes around objects (``mx.image.detection``).

A label is an array (objects, 5 or more): class, left, top, right, bottom, in parts of the image,
and anything further. What changes the image changes its boxes too.
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
