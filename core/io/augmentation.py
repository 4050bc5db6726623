"""Augmentation of images for training (MXNet's ``image_aug_default.cc``).

First its place and size, then its colors. Every class below is a group of options.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .. import imgproc
from ..errors import UsageError, did_you_mean

__all__ = ["Augmentation", "Colors", "Cropping", "Resizing", "Turning"]

Image = np.ndarray[Any, Any]

RANDOM_METHOD = 10
_ALL_METHODS = (*range(5), imgproc.AUTOMATIC, RANDOM_METHOD)
_CROP_TRIALS = 10
_MAX_IMAGE_SIZE = 1e10

# The principal components of ImageNet's RGB values, as in AlexNet (Krizhevsky et al., 2012, 4.1).
_PCA_VALUES = np.array([55.46, 4.794, 1.148])
_PCA_VECTORS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)


@dataclass(frozen=True)
class Resizing:
    """Changes of size.

    Attributes:
        resize: length of the shorter edge before any other change; -1 keeps the size.
        inter_method: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 cubic to enlarge, area
            to shrink and bilinear otherwise, 10 a random one.
    """

    resize: int = -1
    inter_method: int = imgproc.LINEAR

    def __post_init__(self) -> None:
        if self.inter_method not in _ALL_METHODS:
            raise UsageError(f"inter_method is {self.inter_method}; use one of {_ALL_METHODS}")

    def __call__(self, image: Image, random: np.random.RandomState) -> Image:
        """Return the image resized so that its shorter edge has the length ``resize``."""
        if self.resize == -1:
            return image
        height, width = image.shape[:2]
        if height > width:
            size = (height * self.resize // width, self.resize)
        else:
            size = (self.resize, width * self.resize // height)
        return self.to_size(image, size, random)

    def to_size(self, image: Image, size: tuple[int, int], random: np.random.RandomState) -> Image:
        """Return the image resized to (height, width)."""
        return imgproc.resize(image, size, self.choose(image, size, random))

    def choose(self, image: Image, size: tuple[int, int], random: np.random.RandomState) -> int:
        """Return an interpolation for a new (height, width)."""
        if self.inter_method == RANDOM_METHOD:
            return int(random.randint(5))
        return imgproc.choose_method(self.inter_method, image.shape[:2], size)


@dataclass(frozen=True)
class Turning:
    """An affine map of the image about its center.

    Attributes:
        max_rotate_angle: rotate by a random angle of up to this many degrees, either way.
        rotate: rotate by this many degrees; -1 and 0 for none.
        rotate_list: rotate by one of these angles, given as numbers or comma-separated text.
        max_shear_ratio: shear by up to this ratio, either way.
        min_random_scale, max_random_scale: the image's new size, and of what is in it.
        min_aspect_ratio, max_aspect_ratio: width to height of what is in it; without the first
            1 - max_aspect_ratio to 1 + max_aspect_ratio.
        min_img_size, max_img_size: limits of the new height and width, which do not concern what
            is in the image.
        fill_value: the value of pixels outside of the image, also of those that pad it.
    """

    max_rotate_angle: int = 0
    rotate: int = -1
    rotate_list: tuple[int, ...] | str = ()
    max_shear_ratio: float = 0.0
    min_random_scale: float = 1.0
    max_random_scale: float = 1.0
    min_aspect_ratio: float | None = None
    max_aspect_ratio: float = 0.0
    min_img_size: float = 0.0
    max_img_size: float = _MAX_IMAGE_SIZE
    fill_value: int = 255

    @property
    def aspect_range(self) -> tuple[float, float]:
        """Least and greatest ratio of width to height."""
        if self.min_aspect_ratio is None:
            return 1 - self.max_aspect_ratio, 1 + self.max_aspect_ratio
        return self.min_aspect_ratio, self.max_aspect_ratio or 1.0

    @property
    def angles(self) -> tuple[int, ...]:
        """Angles to choose from, in degrees; none if they come from a range."""
        if isinstance(self.rotate_list, str):
            return tuple(int(part) for part in self.rotate_list.split(",") if part.strip())
        if self.rotate_list:
            return tuple(self.rotate_list)
        return (self.rotate,) if self.rotate > 0 else ()

    def is_needed(self, ratio_too: bool) -> bool:
        """Return whether the image changes; ``ratio_too`` counts the aspect ratio as well."""
        return bool(
            self.max_rotate_angle > 0
            or self.max_shear_ratio > 0
            or self.angles
            or (self.min_random_scale, self.max_random_scale) != (1.0, 1.0)
            or (ratio_too and self.aspect_range != (1.0, 1.0))
            or (self.min_img_size, self.max_img_size) != (0.0, _MAX_IMAGE_SIZE)
        )

    def __call__(
        self, image: Image, random: np.random.RandomState, resizing: Resizing, ratio_too: bool
    ) -> Image:
        """Return the image rotated, sheared and scaled."""
        shear = random.uniform(-self.max_shear_ratio, self.max_shear_ratio)
        angle = random.randint(-self.max_rotate_angle, self.max_rotate_angle + 1)
        if self.angles:
            angle = self.angles[random.randint(len(self.angles))]
        scale = random.uniform(self.min_random_scale, self.max_random_scale)
        ratio = random.uniform(*self.aspect_range) if ratio_too else 1.0
        cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        # The factors of height and width (MXNet's `hs` and `ws`, and its matrix): their ratio is
        # the aspect ratio and their mean the scale.
        down = 2 * scale / (1 + ratio)
        across = ratio * down
        turn = np.array(
            [
                [down * cosine - shear * sine * across, down * sine + shear * cosine * across],
                [-sine * across, cosine * across],
            ],
            dtype=np.float32,
        )
        old = np.array([image.shape[1], image.shape[0]], dtype=np.float32)
        new = np.clip(np.float32(scale) * old, self.min_img_size, self.max_img_size)
        matrix = np.column_stack([turn, ((new - turn @ old) / 2).astype(np.float32)])
        size = (int(new[1]), int(new[0]))
        method = resizing.choose(image, size, random)
        return imgproc.warp_affine(image, matrix, size, method, self.fill_value)


@dataclass(frozen=True)
class Cropping:
    """The part of the image that is taken.

    Attributes:
        pad: pixels added at each edge before cropping, of ``fill_value``.
        rand_crop: crop at a random place instead of the center.
        min_crop_size, max_crop_size: crop a square of a random size between these and resize it;
            -1 for neither.
        random_resized_crop: crop a part of ``min_random_area`` to ``max_random_area`` of the
            image with a ratio of ``min_aspect_ratio`` to ``max_aspect_ratio``, and resize it.
    """

    pad: int = 0
    rand_crop: bool = False
    min_crop_size: int = -1
    max_crop_size: int = -1
    random_resized_crop: bool = False
    min_random_area: float = 1.0
    max_random_area: float = 1.0

    def __post_init__(self) -> None:
        sizes = (self.min_crop_size, self.max_crop_size)
        if sizes != (-1, -1) and not 1 <= self.min_crop_size <= self.max_crop_size:
            raise UsageError(
                f"min_crop_size and max_crop_size are {sizes}; give both, the first not above the "
                "second"
            )
        if self.random_resized_crop and (self.rand_crop or sizes != (-1, -1)):
            raise UsageError(
                "random_resized_crop conflicts with rand_crop, min_crop_size and max_crop_size"
            )

    def __call__(
        self,
        image: Image,
        size: tuple[int, int],
        random: np.random.RandomState,
        resizing: Resizing,
        aspect: tuple[float, float],
    ) -> Image:
        """Return a (height, width) of the image."""
        part = None
        is_changed = aspect != (1.0, 1.0) or (self.min_random_area, self.max_random_area) != (1, 1)
        if self.random_resized_crop and is_changed:
            part = self._of_random_area(image, random, aspect)
        elif self.max_crop_size != -1:
            part = self._square(image, random)
        return (
            self._window(image, size, random, resizing)
            if part is None
            else (resizing.to_size(part, size, random))
        )

    def _square(self, image: Image, random: np.random.RandomState) -> Image:
        if min(image.shape[:2]) < self.max_crop_size:
            raise UsageError(
                f"an image of (height, width) {image.shape[:2]} is smaller than max_crop_size "
                f"{self.max_crop_size}"
            )
        length = random.randint(self.min_crop_size, self.max_crop_size + 1)
        return self._cut(image, (length, length), random)

    def _window(
        self,
        image: Image,
        size: tuple[int, int],
        random: np.random.RandomState,
        resizing: Resizing,
    ) -> Image:
        """Crop to a size; a smaller image is enlarged first."""
        rows, columns = image.shape[:2]
        scale = max(size[0] / rows, size[1] / columns)
        if scale > 1:
            larger = (max(size[0], int(rows * scale)), max(size[1], int(columns * scale)))
            image = imgproc.resize(image, larger, resizing.choose(image, size, random))
        return self._cut(image, size, random)

    def _cut(self, image: Image, size: tuple[int, int], random: np.random.RandomState) -> Image:
        spare_y, spare_x = image.shape[0] - size[0], image.shape[1] - size[1]
        if self.rand_crop:
            y, x = random.randint(spare_y + 1), random.randint(spare_x + 1)
        else:
            y, x = spare_y // 2, spare_x // 2
        return image[y : y + size[0], x : x + size[1]]

    def _of_random_area(
        self, image: Image, random: np.random.RandomState, aspect: tuple[float, float]
    ) -> Image | None:
        """Return a random crop of the image, or None if none of the attempts fits inside it."""
        height, width = image.shape[:2]
        least, greatest = (math.log(ratio) for ratio in aspect)
        for _ in range(_CROP_TRIALS):
            area = random.uniform(self.min_random_area, self.max_random_area) * height * width
            ratio = math.exp(random.uniform(least, greatest))
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if random.uniform() > 0.5:
                rows, columns = columns, rows
            if 0 < rows <= height and 0 < columns <= width:
                y, x = random.randint(height - rows + 1), random.randint(width - columns + 1)
                return image[y : y + rows, x : x + columns]
        return None


@dataclass(frozen=True)
class Colors:
    """Random changes of the colors of uint8 images.

    Attributes:
        brightness, contrast, saturation: largest relative change, in any order.
        pca_noise: deviation of the noise along the principal components of natural images.
        random_h, random_s, random_l: largest change of hue (of 180), saturation and lightness
            (of 255).
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    pca_noise: float = 0.0
    random_h: int = 0
    random_s: int = 0
    random_l: int = 0

    def check(self, channels: int) -> None:
        """Raise UsageError for options that need three channels if there are fewer."""
        needed = ("contrast", "saturation", "random_h", "random_s", "random_l")
        given = [name for name in needed if getattr(self, name)]
        if channels != 3 and given:
            raise UsageError(f"{given[0]} needs images of 3 channels; data_shape has {channels}")

    def __call__(self, image: Image, random: np.random.RandomState) -> Image:
        """Return the image in other colors."""
        if self.brightness or self.contrast or self.saturation:
            image = self._jitter(image, random)
        if self.random_h or self.random_s or self.random_l:
            image = self._shift(image, random)
        if self.pca_noise:
            weights = random.normal(0, self.pca_noise, 3)
            noise = _PCA_VECTORS @ (_PCA_VALUES * weights)
            image = _bytes(np.trunc(image + noise[: image.shape[2]]))
        return image

    def _jitter(self, image: Image, random: np.random.RandomState) -> Image:
        ranges = (self.brightness, self.contrast, self.saturation)
        factors = [1 + random.uniform(-most, most) for most in ranges]
        for kind in random.permutation(3):
            factor = factors[kind]
            if kind == 0:
                image = _bytes(np.rint(image * factor))
            elif kind == 1 and self.contrast:
                image = _bytes(np.rint(image * factor + (1 - factor) * _grey(image).mean()))
            elif kind == 2 and self.saturation:
                grey = _grey(image)[..., None]
                image = _bytes(np.rint(image * factor + grey * (1 - factor)))
        return image

    def _shift(self, image: Image, random: np.random.RandomState) -> Image:
        ranges = (self.random_h, self.random_l, self.random_s)
        change = [int(random.uniform(-most, most)) for most in ranges]
        moved = imgproc.to_hls(image).astype(int) + change
        # As in MXNet hue is clipped too, although it is an angle.
        return imgproc.from_hls(np.clip(moved, 0, (180, 255, 255)))


class Augmentation:
    """The whole augmentation: resizes, rotates, pads, crops and changes colors, in this order.

    Args:
        shape: (channels, height, width) of what comes out.
        **options: attributes of ``Resizing``, ``Turning``, ``Cropping`` and ``Colors``.

    Raises:
        TypeError: an unknown option. UsageError: options that contradict each other.
    """

    def __init__(self, shape: tuple[int, ...], **options: Any) -> None:
        groups = (Resizing, Turning, Cropping, Colors)
        known = {field.name for group in groups for field in fields(group)}
        for name in options:
            if name not in known:
                raise TypeError(f"unknown option {name!r}{did_you_mean(name, known)}")
        self.shape = shape
        self.resizing = Resizing(**_options_of(Resizing, options))
        self.turning = Turning(**_options_of(Turning, options))
        self.cropping = Cropping(**_options_of(Cropping, options))
        self.colors = Colors(**_options_of(Colors, options))
        self.colors.check(shape[0])
        scales = (self.turning.min_random_scale, self.turning.max_random_scale)
        if self.cropping.random_resized_crop and scales != (1.0, 1.0):
            raise UsageError(
                "random_resized_crop conflicts with min_random_scale and max_random_scale"
            )

    def __call__(self, image: Image, random: np.random.RandomState) -> Image:
        """Return an augmented image; both are (height, width, channels), uint8, RGB or grey."""
        image = self.resizing(image, random)
        ratio_too = not self.cropping.random_resized_crop
        if self.turning.is_needed(ratio_too):
            image = self.turning(image, random, self.resizing, ratio_too)
        if self.cropping.pad:
            edges = (self.cropping.pad,) * 4
            image = imgproc.add_border(image, edges, values=self.turning.fill_value)
        size = (self.shape[1], self.shape[2])
        aspect = self.turning.aspect_range
        image = self.cropping(image, size, random, self.resizing, aspect)
        return self.colors(image, random)


def _options_of(group: type[Any], options: dict[str, Any]) -> dict[str, Any]:
    return {one.name: options[one.name] for one in fields(group) if one.name in options}


def _grey(image: Image) -> Image:
    # MXNet converts RGB images as if they were BGR; the same numbers need the same mistake.
    return imgproc.grey_of_bytes(image[..., ::-1])


def _bytes(values: Image) -> Image:
    limited: Image = np.clip(values, 0, 255).astype(np.uint8)
    return limited
