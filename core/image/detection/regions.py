"""Random crops that contain objects, and random padding."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from ...errors import UsageError
from ...ndarray import NDArray
from ..cropping import fixed_crop
from ..reading import copyMakeBorder
from .augmenters import Boxes, DetAugmenter

__all__ = ["DetRandomCropAug", "DetRandomPadAug"]

_LEAST_AREA = 2
"""Pixels of a crop, and of an object that counts; also of room worth having."""

Range = float | Sequence[float]


class DetRandomCropAug(DetAugmenter):
    """Crops the image so that objects remain; keeps all of it if no attempt fits.

    Args:
        min_object_covered: smallest fraction of every object in the crop that must be inside it.
        aspect_ratio_range: smallest and largest ratio of width to height, or one number.
        area_range: smallest and largest fraction of the image's area, or one number.
        min_eject_coverage: objects with at most this fraction inside the crop are dropped.
        max_attempts: number of attempts.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: Range = (0.75, 1.33),
        area_range: Range = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        ratios = _as_range(aspect_ratio_range, "aspect_ratio_range")
        areas = _as_range(area_range, "area_range")
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=ratios,
            area_range=areas,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered = min_object_covered
        self.min_eject_coverage = min_eject_coverage
        self.max_attempts = max_attempts
        self.aspect_ratio_range, self.area_range = ratios, areas
        self.enabled = _is_usable(self, areas, ratios, least_area=0.0)

    def __call__(self, src: NDArray, label: Boxes) -> tuple[NDArray, Boxes]:
        """Return the crop, and the boxes of the objects in it."""
        height, width = src.shape[:2]
        found = self._propose(label, height, width) if self.enabled else None
        if found is None:
            return src, label
        (x, y, w, h), label = found
        return fixed_crop(src, x, y, w, h), label

    def _propose(
        self, label: Boxes, height: int, width: int
    ) -> tuple[tuple[int, int, int, int], Boxes] | None:
        least, greatest = (part * height * width for part in self.area_range)
        for _ in range(self.max_attempts):
            size = self._random_size(height, width, least, greatest)
            if size is None:
                continue
            w, h = size
            y, x = random.randint(0, max(0, height - h)), random.randint(0, max(0, width - w))
            if self._holds_objects(label, (x, y, w, h), height, width):
                boxes = self._boxes_within(label, (x, y, w, h), height, width)
                if boxes is not None:
                    return (x, y, w, h), boxes
        return None

    def _random_size(
        self, height: int, width: int, least: float, greatest: float
    ) -> tuple[int, int] | None:
        ratio = random.uniform(*self.aspect_ratio_range)
        h, max_h = round(sqrt(least / ratio)), round(sqrt(greatest / ratio))
        if round(max_h * ratio) > width:
            # The highest crop whose width still rounds to at most that of the image.
            max_h = int((width + 0.4999999) / ratio)
        max_h = min(max_h, height)
        h = min(h, max_h)
        if h < max_h:
            h = random.randint(h, max_h)
        w = round(h * ratio)
        # Rounding to whole pixels may have left the range by one row.
        if w * h < least:
            h += 1
            w = round(h * ratio)
        if w * h > greatest:
            h -= 1
            w = round(h * ratio)
        is_fitting = least <= w * h <= greatest and 0 <= w <= width and 0 <= h <= height
        return (w, h) if is_fitting else None

    def _holds_objects(
        self, label: Boxes, crop: tuple[int, int, int, int], height: int, width: int
    ) -> bool:
        x, y, w, h = crop
        if w * h < _LEAST_AREA:
            return False
        areas = _areas(label[:, 1:])
        counted = areas * width * height > _LEAST_AREA
        if not counted.any():
            return False
        boxes, areas = label[counted, 1:5], areas[counted]
        corner = np.array([x / width, y / height, (x + w) / width, (y + h) / height])
        inner = np.concatenate(
            [np.maximum(boxes[:, :2], corner[:2]), np.minimum(boxes[:, 2:], corner[2:])], axis=1
        )
        coverage = _areas(inner) / areas
        coverage = coverage[coverage > 0]
        return bool(coverage.size and coverage.min() > self.min_object_covered)

    def _boxes_within(
        self, label: Boxes, crop: tuple[int, int, int, int], height: int, width: int
    ) -> Boxes | None:
        x, y, w, h = crop[0] / width, crop[1] / height, crop[2] / width, crop[3] / height
        boxes = label.copy()
        boxes[:, (1, 3)] = (boxes[:, (1, 3)] - x) / w
        boxes[:, (2, 4)] = (boxes[:, (2, 4)] - y) / h
        boxes[:, 1:5] = np.clip(boxes[:, 1:5], 0, 1)
        # Boxes without area have no coverage; NaN compares as false below.
        with np.errstate(divide="ignore", invalid="ignore"):
            coverage = _areas(boxes[:, 1:]) * w * h / _areas(label[:, 1:])
        kept = (boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])
        kept &= coverage > self.min_eject_coverage
        return boxes[kept] if kept.any() else None


class DetRandomPadAug(DetAugmenter):
    """Pads the image to a random size; leaves it unchanged if no attempt fits.

    Args:
        aspect_ratio_range: smallest and largest ratio of width to height, or one number.
        area_range: smallest and largest area as a multiple of the image's, or one number.
        max_attempts: number of attempts.
        pad_val: value of the padding, or one value per channel.
    """

    def __init__(
        self,
        aspect_ratio_range: Range = (0.75, 1.33),
        area_range: Range = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ) -> None:
        ratios = _as_range(aspect_ratio_range, "aspect_ratio_range")
        areas = _as_range(area_range, "area_range")
        pad_val = pad_val if isinstance(pad_val, (list, tuple)) else (pad_val,)
        super().__init__(
            aspect_ratio_range=ratios, area_range=areas, max_attempts=max_attempts, pad_val=pad_val
        )
        self.pad_val = pad_val
        self.max_attempts = max_attempts
        self.aspect_ratio_range, self.area_range = ratios, areas
        self.enabled = _is_usable(self, areas, ratios, least_area=1.0)

    def __call__(self, src: NDArray, label: Boxes) -> tuple[NDArray, Boxes]:
        """Return the padded image, and its boxes in it."""
        height, width = src.shape[:2]
        place = self._propose(height, width) if self.enabled else None
        if place is None:
            return src, label
        x, y, w, h = place
        src = copyMakeBorder(src, y, h - y - height, x, w - x - width, values=self.pad_val)
        boxes = label.copy()
        boxes[:, (1, 3)] = (boxes[:, (1, 3)] * width + x) / w
        boxes[:, (2, 4)] = (boxes[:, (2, 4)] * height + y) / h
        return src, boxes

    def _propose(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        least, greatest = (part * height * width for part in self.area_range)
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            h, max_h = round(sqrt(least / ratio)), round(sqrt(greatest / ratio))
            if round(h * ratio) < width:
                h = int((width + 0.499999) / ratio)
            h = min(max(h, height), max_h)
            if h < max_h:
                h = random.randint(h, max_h)
            w = round(h * ratio)
            if h - height < _LEAST_AREA or w - width < _LEAST_AREA:
                continue
            y, x = random.randint(0, max(0, h - height)), random.randint(0, max(0, w - width))
            return x, y, w, h
        return None


def _as_range(given: Range, name: str) -> tuple[float, ...]:
    if isinstance(given, (tuple, list)):
        return tuple(given)
    if not isinstance(given, (int, float)):
        raise UsageError(f"{name} is {given!r}; expected two numbers or one")
    logging.info("Using fixed %s: %s", name, given)
    return (given, given)


def _is_usable(
    augmenter: DetAugmenter, areas: Sequence[float], ratios: Sequence[float], least_area: float
) -> bool:
    for name, values, least in (
        ("area_range", areas, least_area),
        ("aspect_ratio_range", ratios, 0.0),
    ):
        is_wrong = values[1] <= least or (name != "area_range" and values[0] <= 0)
        if is_wrong or values[0] > values[1]:
            warnings.warn(
                f"Skip {type(augmenter).__name__} due to invalid {name}: {tuple(values)}",
                stacklevel=3,
            )
            return False
    return True


def _areas(boxes: Boxes) -> Boxes:
    """Return the areas of boxes (count, 4 or more)."""
    sides: Boxes = np.maximum(0, boxes[:, 2:4] - boxes[:, :2])
    return sides[:, 1] * sides[:, 0]
