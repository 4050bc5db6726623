"""Augmentation of images with bounding boxes (MXNet's ``image_det_aug_default``).

Boxes are an array (objects, 5 or more): class, left, top, right, bottom in parts of the image, and
anything further.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .. import imgproc
from ..errors import UsageError, did_you_mean
from .augmentation import Resizing

__all__ = ["DetAugmentation", "DetColors", "DetCropping", "Fitting"]

Image = np.ndarray[Any, Any]
Boxes = np.ndarray[Any, Any]
Region = tuple[float, float, float, float]
"""Left, top, width and height in parts of the image."""

_LEAST_PADDING = 1.05  # as in MXNet, which does not pad or change the contrast by less
_LEAST_CONTRAST = 1e-3


@dataclass(frozen=True)
class DetColors:
    """Random changes of color.

    Attributes:
        max_random_hue, max_random_saturation, max_random_illumination: largest changes of hue (of
            180), saturation and lightness (of 255).
        max_random_contrast: pixels are multiplied by a factor that differs from 1 by at most this.
        random_hue_prob, random_saturation_prob, random_illumination_prob, random_contrast_prob:
            probability of each.
    """

    max_random_hue: int = 0
    random_hue_prob: float = 0.0
    max_random_saturation: int = 0
    random_saturation_prob: float = 0.0
    max_random_illumination: int = 0
    random_illumination_prob: float = 0.0
    max_random_contrast: float = 0.0
    random_contrast_prob: float = 0.0

    @property
    def is_needed(self) -> bool:
        """Return whether any color may change."""
        return any(getattr(self, one.name) for one in fields(self) if one.name.endswith("_prob"))

    def __call__(self, image: Image, random: np.random.RandomState) -> Image:
        """Return the image in other colors."""
        hue, light, saturation = (
            int(random.uniform(-most, most)) if random.uniform() < probability else 0
            for most, probability in (
                (self.max_random_hue, self.random_hue_prob),
                (self.max_random_illumination, self.random_illumination_prob),
                (self.max_random_saturation, self.random_saturation_prob),
            )
        )
        if hue or light or saturation:
            change = np.array([hue, light, saturation])
            moved = imgproc.to_hls(image).astype(int) + change
            image = imgproc.from_hls(np.clip(moved, 0, (180, 255, 255)))
        contrast = random.uniform(-self.max_random_contrast, self.max_random_contrast)
        if random.uniform() < self.random_contrast_prob and abs(contrast) > _LEAST_CONTRAST:
            image = np.clip(np.rint(image * (1 + contrast)), 0, 255).astype(np.uint8)
        return image


@dataclass(frozen=True)
class DetCropping:
    """Random crops, tried by one of several samplers and then the others.

    Each option of a sampler is one number for all, or a list of ``num_crop_sampler`` numbers.

    Attributes:
        rand_crop_prob: probability of a crop.
        num_crop_sampler: number of samplers.
        max_crop_trials: attempts of each sampler.
        min_crop_scales, max_crop_scales: size of the crop as a fraction of the image's.
        min_crop_aspect_ratios, max_crop_aspect_ratios: its aspect ratio.
        min_crop_overlaps, max_crop_overlaps: intersection over union with an object.
        min_crop_sample_coverages, max_crop_sample_coverages: fraction of the crop that an object
            covers.
        min_crop_object_coverages, max_crop_object_coverages: fraction of an object inside the crop.
        crop_emit_mode: which objects are dropped: with ``"center"`` those whose center is outside
            the crop, with ``"overlap"`` those with at most ``emit_overlap_thresh`` of them inside.
    """

    rand_crop_prob: float = 0.0
    num_crop_sampler: int = 1
    max_crop_trials: Any = 25
    min_crop_scales: Any = 0.0
    max_crop_scales: Any = 1.0
    min_crop_aspect_ratios: Any = 1.0
    max_crop_aspect_ratios: Any = 1.0
    min_crop_overlaps: Any = 0.0
    max_crop_overlaps: Any = 1.0
    min_crop_sample_coverages: Any = 0.0
    max_crop_sample_coverages: Any = 1.0
    min_crop_object_coverages: Any = 0.0
    max_crop_object_coverages: Any = 1.0
    crop_emit_mode: str = "center"
    emit_overlap_thresh: float = 0.3

    def __post_init__(self) -> None:
        if self.crop_emit_mode not in ("center", "overlap"):
            raise UsageError(f"crop_emit_mode is {self.crop_emit_mode!r}; use center or overlap")
        for sampler in range(self.num_crop_sampler):
            for kind in ("scales", "aspect_ratios", "overlaps"):
                least, most = self._range(kind, sampler)
                if not 0 <= least <= most or (kind == "scales" and not least < most <= 1):
                    raise UsageError(f"min_crop_{kind} and max_crop_{kind} are {least} and {most}")

    def __call__(
        self, image: Image, boxes: Boxes, random: np.random.RandomState
    ) -> tuple[Image, Boxes]:
        """Return a crop of the image and its boxes, or the whole image if no attempt fits."""
        if self.rand_crop_prob <= 0 or random.uniform() >= self.rand_crop_prob:
            return image, boxes
        rows, columns = image.shape[:2]
        for sampler in random.permutation(self.num_crop_sampler):
            for _ in range(int(self._value("max_crop_trials", sampler))):
                crop = self._propose(sampler, random, columns / rows)
                kept = self._boxes_within(boxes, crop, sampler)
                width, height = int(crop[2] * columns), int(crop[3] * rows)
                if kept is None or not width or not height:
                    continue
                left, top = int(crop[0] * columns), int(crop[1] * rows)
                return image[top : top + height, left : left + width], kept
        return image, boxes

    def _propose(self, sampler: int, random: np.random.RandomState, aspect: float) -> Region:
        scale = random.uniform(*self._range("scales", sampler)) + 1e-12  # it is divided by
        # Ratios relative to the image's. Outside of the bounds the crop would be wider or higher
        # than the image. If the range is empty, uniform() gives a number between its ends.
        least, most = (ratio / aspect for ratio in self._range("aspect_ratios", sampler))
        ratio = math.sqrt(random.uniform(max(least, scale**2), min(most, 1 / scale**2)))
        width, height = min(1.0, scale * ratio), min(1.0, scale / ratio)
        return random.uniform(0, 1 - width), random.uniform(0, 1 - height), width, height

    def _boxes_within(self, boxes: Boxes, crop: Region, sampler: int) -> Boxes | None:
        """Return the boxes of a crop, or None if it does not satisfy the sampler."""
        if not len(boxes):
            return boxes
        left, top, width, height = crop
        spans = np.minimum(boxes[:, 3:5], (left + width, top + height))
        spans = np.maximum(0, spans - np.maximum(boxes[:, 1:3], (left, top)))
        common, areas = spans.prod(axis=1), (boxes[:, 3:5] - boxes[:, 1:3]).prod(axis=1)
        measured = {
            "overlaps": common / (areas + width * height - common),
            "sample_coverages": common / (width * height),
            "object_coverages": common / areas,
        }
        ranges = {kind: self._range(kind, sampler) for kind in measured}
        # As in MXNet the ranges apply only if every one of them is narrower than (0, 1).
        if all(least > 0 and most < 1 for least, most in ranges.values()):
            is_wanted = np.logical_and.reduce(
                [(found >= ranges[k][0]) & (found <= ranges[k][1]) for k, found in measured.items()]
            )
            if not is_wanted.any():
                return None
        if self.crop_emit_mode == "center":
            middle = (boxes[:, 1:3] + boxes[:, 3:5]) / 2 - (left, top)
            kept = ((middle >= 0) & (middle < (width, height))).all(axis=1)
        else:
            kept = measured["object_coverages"] > self.emit_overlap_thresh
        return _projected(boxes[kept], crop) if kept.any() else None

    def _range(self, kind: str, sampler: int) -> tuple[float, float]:
        return (
            self._value(f"min_crop_{kind}", sampler),
            self._value(f"max_crop_{kind}", sampler),
        )

    def _value(self, name: str, sampler: int) -> float:
        given = getattr(self, name)
        if not isinstance(given, Sequence):
            return float(given)
        if len(given) not in (1, self.num_crop_sampler):
            raise UsageError(
                f"{name} has {len(given)} numbers; num_crop_sampler is {self.num_crop_sampler}"
            )
        return float(given[sampler % len(given)])


@dataclass(frozen=True)
class Fitting:
    """Mirroring, padding, and the final size.

    Attributes:
        rand_mirror_prob: probability of mirroring.
        rand_pad_prob: probability of padding.
        max_pad_scale: largest padded size as a multiple of the image's.
        fill_value: of the padding.
        resize_mode: ``"force"`` gives all images the batch's size; ``"shrink"`` keeps the aspect
            ratio and shrinks images that are too large; ``"fit"`` also enlarges small ones.
    """

    rand_mirror_prob: float = 0.0
    rand_pad_prob: float = 0.0
    max_pad_scale: float = 1.0
    fill_value: int = 127
    resize_mode: str = "force"

    def __post_init__(self) -> None:
        if self.resize_mode not in ("force", "shrink", "fit"):
            raise UsageError(f"resize_mode is {self.resize_mode!r}; use force, shrink or fit")

    def mirror(
        self, image: Image, boxes: Boxes, random: np.random.RandomState
    ) -> tuple[Image, Boxes]:
        """Return image and boxes, mirrored with a probability."""
        if self.rand_mirror_prob <= 0 or random.uniform() >= self.rand_mirror_prob:
            return image, boxes
        boxes = boxes.copy()
        boxes[:, [1, 3]] = 1 - boxes[:, [3, 1]]
        return image[:, ::-1], boxes

    def pad(self, image: Image, boxes: Boxes, random: np.random.RandomState) -> tuple[Image, Boxes]:
        """Return image and boxes, padded with a probability."""
        is_wanted = self.max_pad_scale > 1 and random.uniform() < self.rand_pad_prob
        scale = random.uniform(1, self.max_pad_scale) if is_wanted else 1.0
        if scale < _LEAST_PADDING:
            return image, boxes
        left, top = random.uniform(0, scale - 1), random.uniform(0, scale - 1)
        rows, columns = image.shape[:2]
        edges = (
            int(top * rows),
            int((scale - top - 1) * rows),
            int(left * columns),
            int((scale - left - 1) * columns),
        )
        padded = imgproc.add_border(image, edges, values=self.fill_value)
        return padded, _projected(boxes, (-left, -top, scale, scale))

    def last_size(self, image: Image, size: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) that the image is resized to."""
        rows, columns = image.shape[:2]
        is_large = rows > size[0] or columns > size[1]
        if self.resize_mode == "force":
            return size
        if self.resize_mode == "shrink" and not is_large:
            return rows, columns
        ratio = min(size[0] / rows, size[1] / columns)
        return max(1, int(ratio * rows)), max(1, int(ratio * columns))


class DetAugmentation:
    """All augmentation: resizes, changes colors, mirrors, pads, crops and fits, in this order.

    Args:
        shape: (channels, height, width) of a batch's images.
        **options: attributes of ``Resizing``, ``DetColors``, ``DetCropping`` and ``Fitting``.

    Raises:
        TypeError: an unknown option. UsageError: options that contradict each other.
    """

    def __init__(self, shape: tuple[int, ...], **options: Any) -> None:
        groups = (Resizing, DetColors, DetCropping, Fitting)
        known = {field.name for group in groups for field in fields(group)}
        for name in options:
            if name not in known:
                raise TypeError(f"unknown option {name!r}{did_you_mean(name, known)}")

        def chosen(group: type[Any]) -> dict[str, Any]:
            return {one.name: options[one.name] for one in fields(group) if one.name in options}

        self.size = (shape[1], shape[2])
        self.resizing = Resizing(**chosen(Resizing))
        self.colors = DetColors(**chosen(DetColors))
        self.cropping = DetCropping(**chosen(DetCropping))
        self.fitting = Fitting(**chosen(Fitting))
        if self.colors.is_needed and shape[0] != 3:
            raise UsageError(f"changes of color need 3 channels; data_shape has {shape[0]}")

    def __call__(
        self, image: Image, boxes: Boxes, random: np.random.RandomState
    ) -> tuple[Image, Boxes]:
        """Return the augmented image (height, width, channels), uint8, and its boxes."""
        image = self.resizing(image, random)
        if self.colors.is_needed:
            image = self.colors(image, random)
        image, boxes = self.fitting.mirror(image, boxes, random)
        image, boxes = self.fitting.pad(image, boxes, random)
        image, boxes = self.cropping(image, boxes, random)
        size = self.fitting.last_size(image, self.size)
        return self.resizing.to_size(image, size, random), boxes


def _projected(boxes: Boxes, region: Region) -> Boxes:
    """Return boxes relative to a region, clipped at its edges."""
    left, top, width, height = region
    found = boxes.copy()
    found[:, 1:3] = np.maximum(0, (found[:, 1:3] - (left, top)) / (width, height))
    found[:, 3:5] = np.minimum(1, (found[:, 3:5] - (left, top)) / (width, height))
    return found
