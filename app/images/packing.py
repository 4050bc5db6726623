"""Many images made one npz file: decoded once, so that training only reads."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from app.domain.image_packing import Packing
from app.errors import Damaged, FieldError, TooLarge
from app.files.array_files import CLASSES_MEMBER, write_member
from app.files.dataset_limits import check_unpacked_size
from app.files.image_sources import ImageSource, open_images
from app.images.transforming import transform_image

__all__ = ["pack_images"]

_MOST_NAMED = 50


def pack_images(source: Path, packing: Packing, target: IO[bytes]) -> None:
    """Write the npz file of a file of images: its images, labels and names of classes.

    Raises:
        Invalid: no size is said, or there are no images.
        Damaged: images that cannot be decoded, each by its path; or the file itself.
        TooLarge: all of it.
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
    """Yield the images; at the end of them raise one error that names all that are broken."""
    broken: list[FieldError] = []
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
            if not count:
                yield pixels
            continue
        count += 1
        broken += rows[: _MOST_NAMED - len(broken)]
    if count > len(broken):
        more = f"{count - len(broken):,} more that are broken"
        broken.append(FieldError("images", more, "images whose files are whole"))
    if broken:
        raise Damaged.from_errors(broken)
