"""What is done to an image on its way into a batch (MXNet's ``image_aug_default.cc``)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from core.errors import UsageError

__all__ = ["Augmentation", "resize_image"]

Image = np.ndarray[Any, Any]

NEAREST, LINEAR = 0, 1
_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_CROP_TRIALS = 10


class Augmentation:
    """Resizes, crops, mirrors, changes colors and normalizes, in this order.

    A pixel becomes ``(pixel - mean) * scale / std``.

    Args:
        shape: (channels, height, width) of what comes out.
        resize: length of the shorter edge before cropping; -1 leaves the size.
        pad: pixels added at each edge before cropping, of ``fill_value``.
        rand_crop: crop anywhere, else in the middle.
        random_resized_crop: crop a part of ``min_random_area`` to ``max_random_area`` of the image
            and of ``min_aspect_ratio`` to ``max_aspect_ratio``, and resize it.
        rand_mirror: mirror every other image by chance; mirror: every one.
        brightness, contrast, saturation: largest relative change by chance.
        mean_r, mean_g, mean_b, std_r, std_g, std_b, scale: of the normalization.
        inter_method: of resizing: 0 nearest, 1 bilinear.
        fill_value: see ``pad``.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        resize: int = -1,
        pad: int = 0,
        rand_crop: bool = False,
        random_resized_crop: bool = False,
        min_random_area: float = 1.0,
        max_random_area: float = 1.0,
        min_aspect_ratio: float | None = None,
        max_aspect_ratio: float = 0.0,
        rand_mirror: bool = False,
        mirror: bool = False,
        brightness: float = 0.0,
        contrast: float = 0.0,
        saturation: float = 0.0,
        mean_r: float = 0.0,
        mean_g: float = 0.0,
        mean_b: float = 0.0,
        std_r: float = 1.0,
        std_g: float = 1.0,
        std_b: float = 1.0,
        scale: float = 1.0,
        inter_method: int = LINEAR,
        fill_value: int = 255,
    ) -> None:
        if inter_method not in (NEAREST, LINEAR):
            raise UsageError(f"inter_method is {inter_method}; use 0 (nearest) or 1 (bilinear)")
        if random_resized_crop and min_aspect_ratio is None:
            raise UsageError("random_resized_crop needs min_aspect_ratio and max_aspect_ratio")
        self.shape = shape
        self.resize, self.pad, self.fill_value = resize, pad, fill_value
        self.rand_crop, self.random_resized_crop = rand_crop, random_resized_crop
        self.area = (min_random_area, max_random_area)
        self.aspect = (min_aspect_ratio or 1.0, max_aspect_ratio or 1.0)
        self.rand_mirror, self.mirror = rand_mirror, mirror
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation
        channels = shape[0]
        self.mean = np.array([mean_r, mean_g, mean_b][:channels], np.float32)
        self.std = np.array([std_r, std_g, std_b][:channels], np.float32)
        self.scale = np.float32(scale)
        self.inter_method = inter_method

    def __call__(self, image: Image, random: np.random.RandomState) -> Image:
        """Return (channels, height, width) float32 of an image (height, width, channels) uint8.

        An image smaller than what is to be cropped from it is enlarged first.
        """
        if self.resize != -1:
            image = self._shorter_edge(image)
        if self.pad:
            edges = ((self.pad, self.pad), (self.pad, self.pad), (0, 0))
            image = np.pad(image, edges, constant_values=self.fill_value)
        image = self._resized_crop(image, random) if self.random_resized_crop else image
        image = self._crop(image, random)
        if self.mirror or (self.rand_mirror and random.randint(2)):
            image = image[:, ::-1]
        pixels = self._jitter(image.astype(np.float32), random)
        normalized: Image = (pixels - self.mean) * (self.scale / self.std)
        return np.ascontiguousarray(normalized.transpose(2, 0, 1))

    def _shorter_edge(self, image: Image) -> Image:
        height, width = image.shape[:2]
        if height > width:
            size = (height * self.resize // width, self.resize)
        else:
            size = (self.resize, width * self.resize // height)
        return resize_image(image, size, self.inter_method)

    def _crop(self, image: Image, random: np.random.RandomState) -> Image:
        _, height, width = self.shape
        rows, columns = image.shape[:2]
        scale = max(height / rows, width / columns)
        if scale > 1:
            size = (max(height, int(rows * scale)), max(width, int(columns * scale)))
            image = resize_image(image, size, self.inter_method)
        spare_y, spare_x = image.shape[0] - height, image.shape[1] - width
        if self.rand_crop:
            y, x = random.randint(spare_y + 1), random.randint(spare_x + 1)
        else:
            y, x = spare_y // 2, spare_x // 2
        return image[y : y + height, x : x + width]

    def _resized_crop(self, image: Image, random: np.random.RandomState) -> Image:
        height, width = image.shape[:2]
        for _ in range(_CROP_TRIALS):
            area = random.uniform(*self.area) * height * width
            aspect = math.exp(random.uniform(math.log(self.aspect[0]), math.log(self.aspect[1])))
            rows, columns = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
            if 0 < rows <= height and 0 < columns <= width:
                y, x = random.randint(height - rows + 1), random.randint(width - columns + 1)
                image = image[y : y + rows, x : x + columns]
                break
        return resize_image(image, self.shape[1:], self.inter_method)

    def _jitter(self, pixels: Image, random: np.random.RandomState) -> Image:
        if self.brightness:
            pixels = pixels * self._factor(self.brightness, random)
        if self.contrast:
            factor = self._factor(self.contrast, random)
            pixels = pixels * factor + _grey(pixels).mean() * (1 - factor)
        if self.saturation and pixels.shape[2] == 3:
            factor = self._factor(self.saturation, random)
            pixels = pixels * factor + _grey(pixels)[..., None] * (1 - factor)
        is_changed = self.brightness or self.contrast or self.saturation
        return np.clip(pixels, 0, 255) if is_changed else pixels

    @staticmethod
    def _factor(most: float, random: np.random.RandomState) -> np.float32:
        return np.float32(1 + random.uniform(-most, most))


def resize_image(image: Image, size: tuple[int, ...], inter_method: int = LINEAR) -> Image:
    """Return a uint8 image (height, width, channels) of another (height, width).

    Pixels are squares whose centers are interpolated, as in OpenCV.
    """
    if image.shape[:2] == tuple(size):
        return image
    rows = _positions(image.shape[0], size[0], inter_method)
    columns = _positions(image.shape[1], size[1], inter_method)
    if inter_method == NEAREST:
        return image[rows[0]][:, columns[0]]
    (top, bottom, down), (left, right, across) = rows, columns
    weights = [np.rint(part * 2048).astype(np.int32)[:, None] for part in (1 - across, across)]
    wide = image.astype(np.int32)
    wide = wide[:, left] * weights[0] + wide[:, right] * weights[1]
    weights = [np.rint(part * 2048).astype(np.int32)[:, None, None] for part in (1 - down, down)]
    # OpenCV's fixed point: what is shifted out twice is lost.
    upper, lower = (wide[row] >> 4 for row in (top, bottom))
    mixed: Image = (upper * weights[0] >> 16) + (lower * weights[1] >> 16) + 2 >> 2
    return np.clip(mixed, 0, 255).astype(np.uint8)


def _positions(length: int, wanted: int, inter_method: int) -> tuple[Image, Image, Image]:
    """Return for each new pixel its two neighbors and the weight of the second."""
    if inter_method == NEAREST:
        nearest = np.minimum(np.arange(wanted) * length // wanted, length - 1)
        return nearest, nearest, np.zeros(wanted, np.float32)
    centers = ((np.arange(wanted) + 0.5) * (length / wanted) - 0.5).astype(np.float32)
    centers = np.clip(centers, 0, length - 1)
    first = np.floor(centers).astype(int)
    return first, np.minimum(first + 1, length - 1), centers - first.astype(np.float32)


def _grey(pixels: Image) -> Image:
    return pixels @ _GREY if pixels.shape[2] == 3 else pixels[..., 0]
