"""Packing of many images into one dataset."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.transforms import ImageTransform
from app.errors.tree import Invalid

__all__ = ["Packing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How to pack images into a dataset.

    Attributes:
        transform: of each; determines their size, by ``size`` or ``crop``.
        data_name: of the array of images.
        label_name: of the array of labels.
        classes: of another dataset, whose order is used; None for those found.
        most_pixels: maximum per image.
        limit: maximum number of bytes of the images, both as uploaded and in the dataset.
    """

    transform: ImageTransform
    data_name: str
    label_name: str
    classes: tuple[str, ...] | None
    most_pixels: int
    limit: int

    def example_shape(self) -> tuple[int, ...]:
        """Return the shape of an image in the dataset; raise Invalid if no size is given."""
        size = self.transform.crop or self.transform.size
        if size is None:
            raise Invalid("size", None, "the height and width of all images, as 224 or 224,320")
        channels = 1 if self.transform.color == "gray" else 3
        return (channels, *size) if self.transform.layout == "NCHW" else (*size, channels)
