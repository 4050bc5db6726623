"""Transforms of images and texts into inputs of a module."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field

from app.domain.codec import STRICT_FIELDS, from_plain
from app.domain.texts import TextTransform, check_vocabulary, inside
from app.errors.tree import Invalid

__all__ = [
    "ImageTransform",
    "Size",
    "TextTransform",
    "Transform",
    "missing_size",
    "parse_transform",
    "stored_transform",
]

_LONGEST_SIDE = 8192
_AXES = {"NCHW": (2, 3), "NHWC": (1, 2)}

Length: TypeAlias = Annotated[int, Field(ge=1, le=_LONGEST_SIDE)]
Size: TypeAlias = tuple[Length, Length]
Channels: TypeAlias = Annotated[tuple[float, ...], Field(min_length=1, max_length=3)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTransform:
    """Decodes, resizes, crops, normalizes and lays out an image, in this order, as ``mx.image``.

    Attributes:
        type: of what is transformed.
        resize: length of the shorter side.
        size: height and width, regardless of proportions; without any of ``resize``, ``size`` and
            ``crop`` they are those with which the input is bound.
        crop: height and width of the center crop, which is enlarged if necessary.
        interpolation: ``auto`` is cubic to enlarge and area to shrink.
        color: order of the channels, or one channel.
        mean, std: to subtract and to divide by, in units of pixel values from 0 to 255: one for all
            channels, or one for each.
        layout: order of the axes.
        dtype: of the result; ``uint8`` cannot be combined with mean and std.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    type: Literal["image"] = "image"
    resize: Length | None = None
    size: Size | None = None
    crop: Size | None = None
    interpolation: Literal["nearest", "linear", "cubic", "area", "lanczos", "auto"] = "linear"
    color: Literal["rgb", "bgr", "gray"] = "rgb"
    mean: Channels | None = None
    std: Channels | None = None
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    dtype: Literal["float32", "uint8"] = "float32"


Transform: TypeAlias = ImageTransform | TextTransform


def parse_transform(plain: Any, field: str) -> Transform:
    """Return the transform that a client or a file describes; raise Invalid if it is not valid."""
    transform = _built(plain, field)
    if isinstance(transform, TextTransform):
        check_vocabulary(transform, field)
    else:
        _check_image(transform, field)
    return transform


def stored_transform(plain: dict[str, Any]) -> Transform:
    """Return a transform that was checked before, without checking its tokens again, which may
    be many.
    """
    tokens = plain.get("vocabulary")
    if tokens is None:
        return _built(plain, "")
    transform = _built({**plain, "vocabulary": []}, "")
    assert isinstance(transform, TextTransform)
    return dataclasses.replace(transform, vocabulary=tuple(tokens))


def _built(plain: Any, field: str) -> Transform:
    kind = plain.get("type", "image") if isinstance(plain, dict) else "image"
    if kind not in ("image", "text"):
        raise Invalid(inside(field, "type"), kind, "image or text")
    if kind == "text":
        return from_plain(TextTransform, plain, field)
    return from_plain(ImageTransform, plain, field)


def _check_image(transform: ImageTransform, field: str) -> None:
    """Raise Invalid for fields that cannot be combined."""
    if transform.resize is not None and transform.size is not None:
        raise Invalid(inside(field, "size"), list(transform.size), "either resize or size")
    channels = 1 if transform.color == "gray" else 3
    for name, values in (("mean", transform.mean), ("std", transform.std)):
        if values is None:
            continue
        if len(values) not in (1, channels):
            expected = f"one number, or one for each of {channels} channels"
            raise Invalid(inside(field, name), list(values), expected)
        if transform.dtype == "uint8":
            raise Invalid(inside(field, name), list(values), "none with dtype uint8")
    if transform.std is not None and not all(one > 0 for one in transform.std):
        raise Invalid(inside(field, "std"), list(transform.std), "numbers over 0")


def missing_size(transform: ImageTransform, field: str, bound: tuple[int, ...]) -> Size | None:
    """Return the size with which an input is bound, for a transform without one.

    Args:
        field: name of the input.
        bound: its shape.

    Raises:
        Invalid: that is not the shape of an image.
    """
    if (transform.resize, transform.size, transform.crop) != (None, None, None):
        return transform.size
    if len(bound) != 4:
        raise Invalid(field, "a transform without size", f"one with it; it is bound as {bound}")
    height, width = _AXES[transform.layout]
    return bound[height], bound[width]
