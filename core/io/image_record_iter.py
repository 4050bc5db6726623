"""Batches of images from RecordIO files, cropped, mirrored and normalized on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.errors import FormatError, ShapeError, UsageError
from core.io.augmentation import Augmentation
from core.io.row_iter import RowIter, Rows
from core.ndarray import NDArray, array
from core.recordio import MXIndexedRecordIO, MXRecordIO, decode_image, unpack
from core.types import to_dtype

__all__ = ["ImageRecordIter"]


class ImageRecordIter(RowIter):
    """Images from a file that ``im2rec`` wrote, as (batch, channels, height, width), RGB.

    Of MXNet's options those of rotation, shear, hue and mean images are not there.

    Args:
        path_imgrec: the file of records.
        data_shape: (channels, height, width); 1 channel makes images grey, 3 colored.
        batch_size: images in a batch.
        path_imgidx: its index; without it the file is read once to find the records.
        label_width: labels of an image; more than one make an axis of their own.
        shuffle: in another order in every round.
        seed: of the order.
        seed_aug: of the augmentations; ``seed`` where None.
        num_parts, part_index: read only one of so many parts.
        round_batch: fill the last batch with the first images, which the next round leaves out.
        dtype: of the data; float32 where None.
        data_name, label_name: names of the inputs.
        preprocess_threads, prefetch_buffer, verbose, ctx: of no use here: images are made when
            asked for, by ``PrefetchingIter`` ahead of time.
        **augmentation: see ``core.io.augmentation.Augmentation``.
    """

    def __init__(
        self,
        path_imgrec: str,
        data_shape: Sequence[int],
        batch_size: int,
        path_imgidx: str = "",
        label_width: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        seed_aug: int | None = None,
        num_parts: int = 1,
        part_index: int = 0,
        round_batch: bool = True,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        preprocess_threads: int = 4,
        prefetch_buffer: int = 4,
        verbose: bool = True,
        ctx: str = "cpu",
        **augmentation: Any,
    ) -> None:
        shape = tuple(data_shape)
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise UsageError(f"data_shape is {shape}; expected (1 or 3, height, width)")
        if not 0 <= part_index < num_parts:
            raise UsageError(f"part_index {part_index} is not among {num_parts} parts")
        self._file = MXRecordIO(path_imgrec, "r")
        places = _places(self._file, path_imgrec, path_imgidx)
        share = len(places) // num_parts
        stop = (part_index + 1) * share if part_index < num_parts - 1 else len(places)
        self._places = places[part_index * share : stop]
        self._label_width = label_width
        self._augmentation = Augmentation(shape, **augmentation)
        self._order = np.arange(len(self._places))
        self._shuffle = np.random.RandomState(seed).shuffle if shuffle else None
        self._random = np.random.RandomState(seed if seed_aug is None else seed_aug)
        self._dtype = to_dtype(dtype or "float32")
        self.start_round()
        super().__init__(
            len(self._places),
            batch_size,
            bool(round_batch),
            data_name=data_name,
            label_name=label_name,
        )

    def start_round(self) -> None:
        """Put the images in another order."""
        if self._shuffle is not None:
            self._shuffle(self._order)

    def take(self, rows: Rows) -> tuple[NDArray, NDArray]:
        """Return data and label of some images."""
        images, labels = zip(*(self._read(self._order[row]) for row in rows), strict=True)
        label = np.stack(labels)[:, 0] if self._label_width == 1 else np.stack(labels)
        return array(np.stack(images), dtype=self._dtype), array(label)

    def _read(self, number: int) -> tuple[Rows, Rows]:
        record = self._file.read_at(self._places[number])
        header, encoded = unpack(record)
        labels = np.atleast_1d(np.asarray(header.label, np.float32))
        if len(labels) != self._label_width:
            raise ShapeError(
                f"{self._file.uri}: record {number} has {len(labels)} labels, label_width is "
                f"{self._label_width}"
            )
        channels = self._augmentation.shape[0]
        try:
            pixels = decode_image(encoded, iscolor=1 if channels == 3 else 0)
        except FormatError as error:
            raise FormatError(f"{self._file.uri}: record {number}: {error}") from None
        image = pixels[..., ::-1] if channels == 3 else pixels[..., None]
        return self._augmentation(image, self._random), labels


def _places(file: MXRecordIO, path: str, index: str) -> list[int]:
    """Return where each record starts."""
    if index:
        indexed = MXIndexedRecordIO(index, path, "r")
        indexed.close()
        return [indexed.idx[key] for key in indexed.keys]
    return list(file.places())
