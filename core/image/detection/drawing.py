"""Drawing of bounding boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..creation import per_channel
from .augmenters import Boxes

__all__ = ["draw_boxes", "restored"]

_TEXT_MARGIN = 5

Image = np.ndarray[Any, Any]


def restored(image: Image, mean: Any, std: Any, clip: bool) -> Image:
    """Undo the normalization of an image; return uint8 pixels."""
    mean, std = per_channel("mean", mean), per_channel("std", std)
    pixels = image if std is None else image * std
    pixels = pixels if mean is None else pixels + mean
    return (np.clip(pixels, 0, 255) if clip else pixels).astype(np.uint8)


def draw_boxes(
    image: Image,
    boxes: Boxes,
    color: Sequence[int] | None,
    thickness: int,
    names: Mapping[int, str] | None,
) -> Image:
    """Return an image (height, width, 3) uint8 with its boxes and their classes' names."""
    # Imported here, as in core.imgproc: the engine works without Pillow until it meets an image.
    from PIL import Image as pillow
    from PIL import ImageDraw

    height, width = image.shape[:2]
    picture = pillow.fromarray(image)
    pen = ImageDraw.Draw(picture)
    for box in boxes:
        left, top, right, bottom = (
            int(part * size) for part, size in zip(box[1:5], (width, height) * 2, strict=True)
        )
        if left < 0:
            continue
        chosen = tuple(int(c) for c in (np.random.rand(3) * 255 if color is None else color))
        pen.rectangle((left, top, right, bottom), outline=chosen, width=thickness)
        if names is not None and int(box[0]) in names:
            place = (left + _TEXT_MARGIN, top + _TEXT_MARGIN)
            pen.text(place, names[int(box[0])], fill=(255, 255, 255))
    return np.array(picture)
