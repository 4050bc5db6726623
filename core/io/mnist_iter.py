"""An iterator over the files of the MNIST digits."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import FormatError, MXNetError, ShapeError, UsageError
from ..ndarray import NDArray, array
from ..types import to_dtype
from .row_iter import RowIter, Rows

__all__ = ["MNISTIter", "read_idx"]


class MNISTIter(RowIter):
    """Digits from idx files, scaled to [0, 1); an incomplete last batch is dropped.

    Args:
        image, label: paths of the idx files; those ending in ``.gz`` are decompressed.
        batch_size: digits in a batch.
        shuffle: shuffle once; every epoch has the same order.
        flat: (batch, 784) instead of (batch, 1, 28, 28).
        seed: seed of the order.
        silent: ignored: nothing is logged in any case.
        num_parts, part_index: read only part ``part_index`` of ``num_parts`` equal parts.
        dtype: of the data; None for float32.
        data_name, label_name: names of the inputs.
        data_shape, input_shape: shape of a digit, which old scripts pass; it is only checked.
        prefetch_buffer, ctx: ignored: the files are read into memory at once.
    """

    def __init__(
        self,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        prefetch_buffer: int = 4,
        ctx: str = "cpu",
        data_shape: Sequence[int] | None = None,
        input_shape: Sequence[int] | None = None,
    ) -> None:
        images, labels = read_idx(image, 3), read_idx(label, 1)
        if len(images) != len(labels):
            raise ShapeError(f"{image} has {len(images)} images, {label} has {len(labels)} labels")
        for name, shape in (("data_shape", data_shape), ("input_shape", input_shape)):
            if shape is not None and math.prod(shape) != math.prod(images.shape[1:]):
                raise ShapeError(f"{name} is {tuple(shape)}; {image} has {images.shape[1:]} digits")
        if not 0 <= part_index < num_parts:
            raise UsageError(f"part_index {part_index} is not among {num_parts} parts")
        share = len(images) // num_parts
        stop = (part_index + 1) * share if part_index < num_parts - 1 else len(images)
        part = slice(part_index * share, stop)
        self._images, self._labels = images[part], labels[part]
        self._order = np.arange(len(self._images))
        if shuffle:
            np.random.RandomState(seed).shuffle(self._order)
        self._flat = flat
        self._dtype = to_dtype(dtype or "float32")
        super().__init__(
            len(self._images),
            batch_size,
            round_batch=False,
            drop_rest=True,
            data_name=data_name,
            label_name=label_name,
        )

    def take(self, rows: Rows) -> tuple[NDArray, NDArray]:
        """Return data and label of some digits."""
        chosen = self._order[rows]
        pixels = self._images[chosen].astype(np.float32) / np.float32(256)
        pixels = pixels.reshape(len(rows), -1) if self._flat else pixels[:, None]
        labels = self._labels[chosen].astype(np.float32)
        return array(pixels, dtype=self._dtype), array(labels, dtype=self._dtype)


def read_idx(path: str, rank: int) -> Rows:
    """Return the bytes of an idx file as an array of the given rank."""
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as stream:
            content = stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise MXNetError(f"{path} cannot be read: {error}") from error
    head = 4 * (rank + 1)
    if len(content) < head or content[:4] != bytes((0, 0, 8, rank)):
        raise FormatError(f"{path} is no idx file of bytes with {rank} dimensions")
    shape = struct.unpack(f">{rank}I", content[4:head])
    pixels = np.frombuffer(content, np.uint8, offset=head)
    if pixels.size != math.prod(shape):
        raise FormatError(f"{path} holds {pixels.size} values, its shape {shape} needs others")
    return pixels.reshape(shape)
