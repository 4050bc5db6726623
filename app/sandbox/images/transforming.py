"""One image through its transform, with the engine's ``mx.image``."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from app.domain.transforms import ImageTransform
from app.errors.tree import Damaged, TooLarge
from app.files.file_kinds import kind_of_file
from core import image as mx_image
from core.errors import MXNetError

__all__ = ["transform_image"]

_INTERPOLATIONS = {"nearest": 0, "linear": 1, "cubic": 2, "area": 3, "lanczos": 4, "auto": 9}
_GRAY, _COLOR = 0, 1


def transform_image(
    encoded: bytes, transform: ImageTransform, field: str, most_pixels: int
) -> npt.NDArray[Any]:
    """Return the tensor of one image, without a batch axis.

    Args:
        field: where it is in the request, for errors.
        most_pixels: largest number of pixels; a larger image is not decoded.

    Raises:
        TooLarge: it has more pixels.
        Damaged: it is not an image.
    """
    _check_pixels(encoded, field, most_pixels)  # a file of some KB can hold gigabytes of pixels
    flag = _GRAY if transform.color == "gray" else _COLOR
    method = _INTERPOLATIONS[transform.interpolation]
    try:
        picture = mx_image.imdecode(encoded, flag, to_rgb=transform.color != "bgr")
    except MXNetError as error:
        raise Damaged(field, str(error), "a complete image file") from None
    if transform.resize is not None:
        picture = mx_image.resize_short(picture, transform.resize, method)
    if transform.size is not None:
        height, width = transform.size
        picture = mx_image.imresize(picture, width, height, method)
    if transform.crop is not None:
        height, width = transform.crop
        picture, _ = mx_image.center_crop(picture, (width, height), method)
    pixels: npt.NDArray[Any] = picture.asnumpy()
    if transform.dtype == "float32":
        pixels = pixels.astype(np.float32)
        if transform.mean is not None:
            pixels -= np.asarray(transform.mean, np.float32)
        if transform.std is not None:
            pixels /= np.asarray(transform.std, np.float32)
    return pixels.transpose(2, 0, 1) if transform.layout == "NCHW" else pixels


def _check_pixels(encoded: bytes, field: str, most: int) -> None:
    try:
        with warnings.catch_warnings():
            # Pillow's own, fixed limits; ours is a setting. Beyond the double it raises an error.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(encoded)) as picture:  # reads only the header
                width, height = picture.size
    except Image.DecompressionBombError as error:
        raise TooLarge(f"{field}: {error}", got=None, limit=most, setting=_SETTING) from None
    except UnidentifiedImageError:
        kind = kind_of_file(encoded)
        got = f"{kind} that cannot be read" if kind.endswith("image") else kind
        raise Damaged(field, got, _TAKEN) from None
    except (OSError, SyntaxError, ValueError) as error:
        raise Damaged(field, f"an image that cannot be read: {error}", _TAKEN) from None
    if width * height > most:
        what = f"{field}, in pixels"
        raise TooLarge(what, got=width * height, limit=most, setting=_SETTING)


_SETTING = "MODSERVE_MAX_IMAGE_PIXELS"
_TAKEN = "an image: JPEG, PNG, WebP, GIF, BMP or TIFF"
