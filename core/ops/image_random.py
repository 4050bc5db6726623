"""Random changes of images (height, width, channels): colors, lighting and flips.

Colors change by a factor drawn from [``min_factor``, ``max_factor``); results of integer dtype are
truncated towards 0 and clipped to the dtype's range. As in MXNet, the gradient is passed unchanged.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import Array, Shape, is_floating
from .attributes import attribute
from .image import check_image, flipped
from .operator import Operator, Reads, Run
from .registry import declares_attributes, register

__all__ = [
    "AdjustLighting",
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomHue",
    "RandomLighting",
    "RandomSaturation",
]

_GREY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in perceived brightness (luma)."""

_LIGHT = (
    (55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009),
    (55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140),
    (55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203),
)
"""Principal components of ImageNet's colors, times their standard deviations (AlexNet)."""


class _ImageToImage(Operator, abc.ABC):
    """Base of operators from an image to an image of the same shape and dtype."""

    def backward_reads(self) -> Reads:
        return Reads()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = self.expect("output", outputs[0], inputs[0])
        if common is not None:
            check_image(common, 3)
        return [common], [common]

    @abc.abstractmethod
    def change(self, run: Run, image: Array) -> Array:
        """Return the changed image as float32."""

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _write(run, self.change(run, inputs[0].astype("float32")), outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        run.xp.copyto(in_grads[0], out_grads[0])


@declares_attributes
class _RandomColor(_ImageToImage):
    """Base: draws a factor from a range."""

    uses_random: ClassVar[bool] = True

    min_factor: float = attribute(minimum=0.0, doc="the smallest factor")
    max_factor: float = attribute(minimum=0.0, doc="the largest factor")

    def __post_init__(self) -> None:
        if self.max_factor < self.min_factor:
            raise AttributeValueError(
                f"max_factor is {self.max_factor}, which is less than min_factor {self.min_factor}"
            )

    def change(self, run: Run, image: Array) -> Array:
        return self.apply(run, image, _drawn(run, self.min_factor, self.max_factor))

    @staticmethod
    @abc.abstractmethod
    def apply(run: Run, image: Array, factor: float) -> Array:
        """Apply a factor to the image's color; a factor of 1 changes nothing."""


@register("_image_random_brightness")
class RandomBrightness(_RandomColor):
    """Multiply an image (H, W, C) by a random factor."""

    @staticmethod
    def apply(run: Run, image: Array, factor: float) -> Array:
        return image * np.float32(factor)


@register("_image_random_contrast")
class RandomContrast(_RandomColor):
    """Randomly scale the differences of an image's pixels from its mean brightness."""

    @staticmethod
    def apply(run: Run, image: Array, factor: float) -> Array:
        mean = float(_grey(run, image).mean(dtype="float64"))
        return image * np.float32(factor) + np.float32(mean * (1 - factor))


@register("_image_random_saturation")
class RandomSaturation(_RandomColor):
    """Randomly scale the differences of an image's pixels from grey.

    As in MXNet, grey is blue's share of the brightness instead of the sum over colors.
    """

    @staticmethod
    def apply(run: Run, image: Array, factor: float) -> Array:
        if image.shape[-1] == 1:
            return image
        grey = image[..., 2] * np.float32(_GREY[2]) * np.float32(1 - factor)
        changed = image * np.float32(factor)
        for channel in range(image.shape[-1]):  # NumPy is slow if the last axis is short
            changed[..., channel] += grey
        return changed


@register("_image_random_hue")
class RandomHue(_RandomColor):
    """Randomly rotate hues; the factor is the fraction of a full circle."""

    @staticmethod
    def apply(run: Run, image: Array, factor: float) -> Array:
        if image.shape[-1] == 1:
            return image
        hue, lightness, saturation = _to_hls(run.xp, image)
        return _from_hls(run.xp, hue + np.float32(factor * 360), lightness, saturation)


@register("_image_random_color_jitter")
class RandomColorJitter(_ImageToImage):
    """Randomly change brightness, contrast, saturation and hue, in random order.

    Each factor is drawn from [1 - x, 1 + x), with x the attribute; that of the hue from [-x, x),
    because 0 leaves hues unchanged.
    """

    uses_random: ClassVar[bool] = True

    brightness: float = attribute(minimum=0.0, doc="largest change of the brightness factor")
    contrast: float = attribute(minimum=0.0, doc="largest change of the contrast factor")
    saturation: float = attribute(minimum=0.0, doc="largest change of the saturation factor")
    hue: float = attribute(minimum=0.0, doc="largest change of the hue")

    def change(self, run: Run, image: Array) -> Array:
        changes: list[tuple[type[_RandomColor], float]] = [
            (RandomBrightness, self.brightness),
            (RandomContrast, self.contrast),
            (RandomSaturation, self.saturation),
            (RandomHue, self.hue),
        ]
        while changes:
            kind, spread = changes.pop(int(_drawn(run, 0, len(changes))))
            middle = 0 if kind is RandomHue else 1
            if spread > 0:
                image = kind.apply(run, image, _drawn(run, middle - spread, middle + spread))
        return image


@register("_image_adjust_lighting")
class AdjustLighting(_ImageToImage):
    """Add the principal components of ImageNet's colors, times ``alpha``, to an image (H, W, 3)
    (Krizhevsky et al., "AlexNet", 2012). An image of one channel is not changed."""

    alpha: tuple[float, ...] = attribute(doc="factors of the three components")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if len(self.alpha) != 3:
            raise ShapeError(f"alpha is {self.alpha}; expected three numbers")
        return super().infer_shape(inputs, outputs)

    def change(self, run: Run, image: Array) -> Array:
        return _lit(run, image, self.alpha)


@register("_image_random_lighting")
class RandomLighting(_ImageToImage):
    """``_image_adjust_lighting`` with factors drawn from a normal distribution."""

    uses_random: ClassVar[bool] = True

    alpha_std: float = attribute(0.05, minimum=0.0, doc="standard deviation of the factors")

    def change(self, run: Run, image: Array) -> Array:
        alpha = run.scratch((3,), "float32")
        run.random.normal(alpha, 0.0, self.alpha_std)
        return _lit(run, image, alpha)


class _RandomFlip(_ImageToImage):
    """Base: reverses an axis with probability 1/2."""

    uses_random: ClassVar[bool] = True
    axis: ClassVar[int]

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def change(self, run: Run, image: Array) -> Array:
        return flipped(image, self.axis) if _drawn(run, 0, 1) < 0.5 else image

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], self.change(run, inputs[0]))


@register("_image_random_flip_left_right")
class RandomFlipLeftRight(_RandomFlip):
    """Reverse the image's columns with probability 1/2."""

    axis: ClassVar[int] = 1


@register("_image_random_flip_top_bottom")
class RandomFlipTopBottom(_RandomFlip):
    """Reverse the image's rows with probability 1/2."""

    axis: ClassVar[int] = 0


def _drawn(run: Run, low: float, high: float) -> float:
    number = run.xp.empty(1, "float64")  # aligned scratch memory takes longer than the draw
    run.random.uniform(number, low, high)
    return float(number[0])


def _grey(run: Run, image: Array) -> Array:
    if image.shape[-1] == 1:
        return image[..., 0]
    return image[..., :3] @ run.xp.asarray(_GREY, "float32")


def _lit(run: Run, image: Array, alpha: Any) -> Array:
    if image.shape[-1] == 1:
        return image
    return image + run.xp.asarray(_LIGHT, "float32") @ run.xp.asarray(alpha, "float32")


def _to_hls(xp: Any, image: Array) -> tuple[Array, Array, Array]:
    """Convert red, green and blue (0 to 255) to hue (0 to 360), lightness and saturation (0 to
    1)."""
    red, green, blue = xp.moveaxis(image / np.float32(255), -1, 0)
    most, least = xp.maximum(xp.maximum(red, green), blue), xp.minimum(xp.minimum(red, green), blue)
    spread, lightness = most - least, (most + least) / 2
    # OpenCV's conversion and its bound for colors without a hue, which MXNet has taken over.
    is_grey = spread <= np.finfo(np.float32).eps
    part = xp.where(lightness < 0.5, most + least, 2 - most - least)
    saturation = xp.where(is_grey, 0, spread / xp.where(is_grey, 1, part))
    sixth = np.float32(60) / xp.where(is_grey, 1, spread)
    hue = xp.where(
        most == red,
        (green - blue) * sixth,
        xp.where(most == green, (blue - red) * sixth + 120, (red - green) * sixth + 240),
    )
    return xp.where(is_grey, 0, xp.where(hue < 0, hue + 360, hue)), lightness, saturation


def _from_hls(xp: Any, hue: Array, lightness: Array, saturation: Array) -> Array:
    """Return red, green and blue (0 to 255); hues wrap around."""
    # Written in MXNet's order of operations, because truncation to bytes exposes rounding errors.
    if_light = lightness + saturation - lightness * saturation
    most = xp.where(lightness <= 0.5, lightness * (1 + saturation), if_light)
    least = 2 * lightness - most
    place = xp.mod(hue * np.float32(1 / 60), np.float32(6))
    sector = xp.minimum(place.astype("int64"), 5)
    part = place - sector.astype("float32")
    rising, falling = least + (most - least) * part, least + (most - least) * (1 - part)
    colors = (
        (most, falling, least, least, rising, most),
        (rising, most, most, falling, least, least),
        (least, least, rising, most, most, falling),
    )
    chosen = [xp.choose(sector, xp.stack(by_sector)) for by_sector in colors]
    return xp.stack(chosen, -1).astype("float32") * np.float32(255)


def _write(run: Run, image: Array, out: Array) -> None:
    if not is_floating(out.dtype):
        limits = np.iinfo(out.dtype)
        image = run.xp.clip(image, limits.min, limits.max)
    run.xp.copyto(out, image, casting="unsafe")
