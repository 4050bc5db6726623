"""Color conversions of uint8 images: grayscale, and hue, lightness and saturation."""

from __future__ import annotations

import numpy as np

from .kernels import Values, saturated

__all__ = ["from_hls", "grey_of_bytes", "to_hls"]

_GREY = np.array([4899, 9617, 1868])
"""OpenCV's fixed-point weights of red, green and blue (0.299, 0.587, 0.114), in units of
1 / 16384."""
_SIXTH = 30
"""A sixth of the hue circle; OpenCV's hues range from 0 to 180 to fit into a byte."""


def grey_of_bytes(image: Values) -> Values:
    """Return the grayscale image (height, width) uint8 of an RGB image."""
    weighted = image.astype(np.int64) @ _GREY
    return saturated((weighted + (1 << 13)) >> 14)  # rounded to the nearest


def to_hls(image: Values) -> Values:
    """Convert RGB to hue (0 to 180), lightness and saturation (0 to 255), all uint8."""
    red, green, blue = np.moveaxis(image.astype(np.float32) / np.float32(255), -1, 0)
    most, least = np.maximum(np.maximum(red, green), blue), np.minimum(np.minimum(red, green), blue)
    spread, lightness = most - least, (most + least) / 2
    is_grey = spread <= np.finfo(np.float32).eps
    divisor = np.where(lightness < 0.5, most + least, 2 - most - least)
    saturation = np.where(is_grey, 0, spread / np.where(is_grey, 1, divisor))
    sixth = _SIXTH / np.where(is_grey, 1, spread)
    hue = np.where(
        most == red,
        (green - blue) * sixth,
        np.where(
            most == green, (blue - red) * sixth + 2 * _SIXTH, (red - green) * sixth + 4 * _SIXTH
        ),
    )
    hue = np.where(is_grey, 0, np.where(hue < 0, hue + 6 * _SIXTH, hue))
    return saturated(np.rint(np.stack([hue, lightness * 255, saturation * 255], -1)))


def from_hls(image: Values) -> Values:
    """Convert uint8 hue, lightness and saturation, as from ``to_hls``, to RGB."""
    hue, lightness, saturation = np.moveaxis(image.astype(np.float32), -1, 0)
    lightness, saturation = lightness / np.float32(255), saturation / np.float32(255)
    both = lightness * saturation
    most = np.where(lightness <= 0.5, lightness + both, lightness + saturation - both)
    least = 2 * lightness - most
    place = hue / _SIXTH
    rising = np.floor(place)
    part = place - rising
    up, down = least + (most - least) * part, least + (most - least) * (1 - part)
    sector = rising.astype(int) % 6  # 180 is red again
    choices = {
        "red": (most, down, least, least, up, most),
        "green": (up, most, most, down, least, least),
        "blue": (least, least, up, most, most, down),
    }
    parts_of_one = np.stack([np.choose(sector, parts) for parts in choices.values()], -1)
    return saturated(np.rint(parts_of_one * 255))
