"""Packing many images into one npz file: decoded once, so that training only has to read them."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from app.domain.image_packing import Packing
from app.errors.tree import Damaged, FieldError, TooLarge
from app.files.array_files import CLASSES_MEMBER, write_member
from app.files.dataset_limits import check_unpacked_size
from app.files.image_sources import ImageSource, open_images
from app.sandbox.images.transforming import transform_image

__all__ = ["pack_images"]

_MOST_NAMED = 50


def pack_images(source: Path, packing: Packing, target: IO[bytes]) -> None:
    """Write a file of images as an npz file, with their labels and class names.

    Raises:
        Invalid: no size is given, or there are no images.
        Damaged: images cannot be decoded (each is named by its path), or the file itself is
            damaged.
        TooLarge: the images or the result exceed a limit.
    """
    example = packing.example_shape()
    with open_images(source, packing.classes, packing.limit) as images:
        shape = (len(images.paths), *example)
        dtype = np.dtype(packing.transform.dtype)
        check_unpacked_size(math.prod(shape) * dtype.itemsize, packing.limit)
        with zipfile.ZipFile(target, "w") as archive:
            pixels = _pixels(images, packing)
            write_member(archive, packing.data_name, shape, dtype, pixels)
            if images.labels:
                labels = np.array(images.labels, np.float32)
                write_member(archive, packing.label_name, labels.shape, labels.dtype, [labels])
            if images.classes:
                stamp = zipfile.ZipInfo(CLASSES_MEMBER)
                archive.writestr(stamp, "\n".join(images.classes))


def _pixels(images: ImageSource, packing: Packing) -> Iterator[npt.NDArray[Any]]:
    """Yield the images; finally raise one error that names all damaged ones."""
    damaged: list[FieldError] = []
    count = 0
    for index, path in enumerate(images.paths):
        try:
            encoded = images.read(index)
            pixels = transform_image(encoded, packing.transform, path, packing.most_pixels)
        except Damaged as error:
            rows = error.field_errors()
        except TooLarge as error:
            rows = (FieldError(path, error.message, f"at most {packing.most_pixels:,} pixels"),)
        else:
            if not count:  # once one is damaged, the rest is only checked
                yield pixels
            continue
        count += 1
        damaged += rows[: _MOST_NAMED - len(damaged)]
    if count > len(damaged):
        more = f"{count - len(damaged):,} more damaged ones"
        damaged.append(FieldError("images", more, "undamaged image files"))
    if damaged:
        raise Damaged.from_errors(damaged)
