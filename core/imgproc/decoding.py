"""Decoding of image files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..errors import FormatError
from .color import grey_of_bytes
from .kernels import Values

__all__ = ["decode"]

_GREY_MODES = ("1", "L", "I;16", "I;16B", "I")
_PNG_GREY = np.array([9797, 19234, 3737])
"""libpng's weights of red, green and blue, in units of 1 / 32768."""
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def decode(encoded: bytes, channels: int | None = 3) -> Values:
    """Return an image (height, width, channels) of uint8: grayscale, RGB or RGBA.

    JPEG and PNG equal OpenCV's result.

    Args:
        encoded: bytes of a file that Pillow reads.
        channels: 1, 3 or 4; None is 1 for grayscale files, else 3.

    Raises:
        FormatError: the bytes are not an image, or have no alpha if 4 channels are requested.
    """
    # Imported here, because Pillow takes 50 ms and most processes decode no image.
    from PIL import Image as pillow

    try:
        with pillow.open(io.BytesIO(encoded)) as picture:
            if channels is None:
                channels = 1 if picture.mode in _GREY_MODES else 3
            if channels == 4 and "A" not in picture.getbands():
                raise FormatError(
                    f"expected an image of 4 channels, got one of mode {picture.mode}"
                )
            if channels == 1:
                # JPEG stores luma separately from chroma, so this avoids a conversion.
                picture.draft("L", None)
            if channels == 1 and picture.mode not in (*_GREY_MODES, "LA"):
                values = _grey(picture)
            else:
                pixels = _as_bytes(picture).convert(_MODES[channels])
                values = np.array(pixels, dtype=np.uint8)
    # Pillow raises SyntaxError for damaged PNG files.
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        if isinstance(error, FormatError):  # a ValueError, too
            raise
        raise FormatError(f"{len(encoded)} bytes are not an image: {error}") from None
    return values if values.ndim == 3 else values[..., None]


def _grey(picture: Any) -> Values:
    """Return a color picture as grayscale, PNG with the weights and the rounding of libpng."""
    colors = np.array(picture.convert("RGB"), dtype=np.uint8)
    if picture.format != "PNG":
        return grey_of_bytes(colors)
    # libpng truncates, OpenCV's own conversion rounds.
    grey: Values = (colors.astype(np.int64) @ _PNG_GREY) >> 15
    return grey.astype(np.uint8)


def _as_bytes(picture: Any) -> Any:
    """Convert a picture of 16 bits per pixel to its upper 8 bits."""
    from PIL import Image as pillow

    if picture.mode not in ("I;16", "I;16B", "I"):
        return picture
    return pillow.fromarray((np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8))
