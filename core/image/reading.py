"""Images from files, in another size, with borders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import imgproc
from ..device import current_context
from ..errors import FormatError, MXNetError, ShapeError, UsageError
from ..ndarray import NDArray, array

__all__ = ["choose_interpolation", "copyMakeBorder", "imdecode", "imread", "imresize"]

_RANDOM = 10


def imread(filename: str, flag: int = 1, to_rgb: bool | int = True, out: Any = None) -> NDArray:
    """Return the image of a file: (height, width, channels) uint8.

    Args:
        filename: path of the file.
        flag, to_rgb, out: as of ``imdecode``.

    Raises:
        MXNetError: the file cannot be read. FormatError: it is not an image.
    """
    try:
        with open(filename, "rb") as stream:
            encoded = stream.read()
    except OSError as error:
        raise MXNetError(f"{filename} cannot be read: {error.strerror or error}") from error
    try:
        return imdecode(encoded, flag, to_rgb, out)
    except FormatError as error:
        raise FormatError(f"{filename}: {error}") from None


def imdecode(buf: Any, flag: int = 1, to_rgb: bool | int = True, out: Any = None) -> NDArray:
    """Return the image of a file's bytes: (height, width, channels) uint8.

    Args:
        buf: bytes, or an array of them.
        flag: 1 for three channels, 0 for one grey channel.
        to_rgb: return RGB instead of BGR.
        out: array to write it to.

    Raises:
        ValueError: ``buf`` is text or something else. FormatError: it is not an image.
        UsageError: an unknown flag.
    """
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if isinstance(buf, np.ndarray):
        buf = buf.tobytes()
    if not isinstance(buf, (bytes, bytearray)):
        raise ValueError(
            f"buf must be of type bytes, bytearray or numpy.ndarray, got {type(buf).__name__}; "
            "convert text to bytes"
        )
    if flag not in (0, 1):
        raise UsageError(f"flag is {flag}; use 1 for three channels or 0 for grey")
    image = imgproc.decode(bytes(buf), 3 if flag else 1)
    return _result(image if to_rgb else image[..., ::-1], out)


def imresize(src: NDArray, w: int, h: int, interp: int = 1, out: Any = None) -> NDArray:
    """Return an image in another size.

    Args:
        src: (height, width, channels), uint8, float32 or float64.
        w, h: the new width and height.
        interp: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 cubic to enlarge, area to shrink
            and linear otherwise, 10 a random one.
        out: array to write it to.

    Raises:
        ShapeError, UsageError: not an image, or an invalid size or method.
    """
    image = _image(src)
    method = choose_interpolation(interp, (*image.shape[:2], h, w))
    return _result(imgproc.resize(image, (h, w), method), out)


def copyMakeBorder(
    src: NDArray,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0.0,
    values: Sequence[float] = (),
    out: Any = None,
) -> NDArray:
    """Return an image padded at its edges.

    Args:
        src: (height, width, channels).
        top, bot, left, right: pixels to add.
        type: 0 constant, 1 the edge repeated, 2 mirrored, 3 wrapped around from the other side,
            4 mirrored without the edge.
        value: for type 0, of all channels; values: one per channel, used in its place.
        out: array to write it to.

    Raises:
        ShapeError, UsageError: not an image, or invalid edges or an invalid type.
    """
    filled = tuple(values) or value
    return _result(imgproc.add_border(_image(src), (top, bot, left, right), type, filled), out)


def choose_interpolation(interp: int, sizes: Sequence[int] = ()) -> int:
    """Return an interpolation, 0 to 4, for one that may be 9 (by size) or 10 (random).

    Args:
        interp: see ``imresize``.
        sizes: old height and width, new height and width; without them 9 means cubic.

    Raises:
        UsageError: another number.
    """
    if interp == _RANDOM:
        return random.randint(0, 4)
    if interp == imgproc.AUTOMATIC and not sizes:
        return imgproc.CUBIC
    old, new = (tuple(sizes[:2]), tuple(sizes[2:])) if sizes else ((0, 0), (0, 0))
    return imgproc.choose_method(interp, old, new)  # type: ignore[arg-type]


def _image(src: NDArray) -> np.ndarray[Any, Any]:
    if src.ndim != 3:
        raise ShapeError(f"an image has shape (height, width, channels), got {src.shape}")
    raw = src.dense()
    return raw if isinstance(raw, np.ndarray) else src.asnumpy()  # read only, and not kept


def _result(image: np.ndarray[Any, Any], out: NDArray | None) -> NDArray:
    if out is None:
        context = current_context()
        plain = np.ascontiguousarray(image)  # not shared: all functions return new images
        is_here = context.device_type != "gpu"
        return NDArray(plain, context) if is_here else array(plain, context, plain.dtype)
    if out.shape != image.shape:
        raise ShapeError(f"out has shape {out.shape}; the image has {image.shape}")
    out[:] = image
    return out
