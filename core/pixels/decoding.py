"""Images from the bytes of their files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..errors import FormatError
from .kernels import Values

__all__ = ["decode"]

_GREY_MODES = ("1", "L", "I;16", "I;16B", "I")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def decode(encoded: bytes, channels: int | None = 3) -> Values:
    """Return an image (height, width, channels), uint8: grey, red-green-blue, or with alpha.

    JPEG in color and PNG come out as OpenCV decodes them; grey from other colored files may be
    one apart, as each library has its own weights.

    Args:
        encoded: bytes of a file that Pillow reads.
        channels: 1, 3 or 4; None for 1 where the file is grey, else 3.

    Raises:
        FormatError: the bytes are no image, or have no alpha where 4 channels are asked for.
    """
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
                # A JPEG file holds its grey apart from its colors.
                picture.draft("L", None)
            pixels = _as_bytes(picture).convert(_MODES[channels])
            values = np.array(pixels, dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{len(encoded)} bytes are no image: {error}") from None
    return values if values.ndim == 3 else values[..., None]


def _as_bytes(picture: Any) -> Any:
    """Return a picture of 16 bits a pixel as one of the upper 8."""
    from PIL import Image as pillow

    if picture.mode not in ("I;16", "I;16B", "I"):
        return picture
    return pillow.fromarray((np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8))
