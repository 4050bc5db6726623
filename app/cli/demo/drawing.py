"""A digit in the terminal."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

__all__ = ["draw_digit"]

_SHADES = " ░▒▓█"


def draw_digit(image: npt.NDArray[Any]) -> str:
    """Return a grey image (uint8, height by width) as text, two characters per pixel."""
    rows = (image.astype(int) * (len(_SHADES) - 1) + 127) // 255
    return "\n".join("".join(_SHADES[value] * 2 for value in row) for row in rows)
