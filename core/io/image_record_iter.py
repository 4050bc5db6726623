"""Batches of images from RecordIO files, cropped, mirrored and normalized."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from ..errors import FormatError, ShapeError, UsageError
from ..imgproc import decode
from ..ndarray import NDArray, array, save
from ..recordio import IRHeader, MXIndexedRecordIO, MXRecordIO, unpack
from ..types import to_dtype
from .augmentation import Augmentation
from .normalization import Normalization, read_mean_image
from .row_iter import RowIter, Rows

__all__ = [
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
]

_SEEDS = 2**32  # RandomState takes seeds from 0 to below this


class ImageRecordIter(RowIter):
    """Images from a file that ``im2rec`` wrote, as (batch, channels, height, width), RGB.

    Args:
        path_imgrec: the file of records.
        data_shape: (channels, height, width); 1 channel for grey images, 3 for color, 4 for color
            with alpha.
        batch_size: images in a batch.
        path_imgidx: its index; without it the file is read once to find the records.
        path_imglist: a list with labels that replace those of the records.
        label_width: number of labels per image; more than one add an axis.
        shuffle: use a new random order in every epoch.
        seed, shuffle_chunk_seed: seeds of the order.
        seed_aug: seed of the augmentations; None for ``seed``.
        num_parts, part_index: read only part ``part_index`` of ``num_parts`` equal parts.
        round_batch: pad the last batch with the first images, which the next epoch leaves out.
        dtype: of the data; None for float32.
        data_name, label_name: names of the inputs.
        aug_seq: ``"aug_default"``, the only augmenter.
        preprocess_threads, prefetch_buffer, shuffle_chunk_size, device_id, verbose, ctx: ignored:
            images are decoded when asked for; wrap this in ``PrefetchingIter`` to decode ahead.
        **options: see ``core.io.augmentation.Augmentation`` and
            ``core.io.normalization.Normalization``.

    Raises:
        TypeError: an unknown option. UsageError: options that contradict each other.
    """

    normalizing: ClassVar[frozenset[str]] = frozenset(field.name for field in fields(Normalization))
    """Options of ``Normalization``; the others belong to the augmentation."""

    def __init__(
        self,
        path_imgrec: str,
        data_shape: Sequence[int],
        batch_size: int,
        path_imgidx: str = "",
        path_imglist: str = "",
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
        aug_seq: str = "aug_default",
        preprocess_threads: int = 4,
        prefetch_buffer: int = 4,
        shuffle_chunk_size: int = 0,
        shuffle_chunk_seed: int = 0,
        device_id: int = 0,
        verbose: bool = True,
        ctx: str = "cpu",
        **options: Any,
    ) -> None:
        shape = tuple(data_shape)
        if len(shape) != 3 or shape[0] not in (1, 3, 4):
            raise UsageError(f"data_shape is {shape}; expected (1, 3 or 4, height, width)")
        if not 0 <= part_index < num_parts:
            raise UsageError(f"part_index {part_index} is not among {num_parts} parts")
        if aug_seq != "aug_default":
            raise UsageError(f"aug_seq is {aug_seq!r}; the only augmenter is 'aug_default'")
        normalizing = {name: options.pop(name) for name in self.normalizing & options.keys()}
        self._normalize = Normalization(**normalizing)
        self._augment = self._make_augmentation(shape, options)
        self._file = MXRecordIO(path_imgrec, "r")
        places = _places(self._file, path_imgrec, path_imgidx)
        share = len(places) // num_parts
        stop = (part_index + 1) * share if part_index < num_parts - 1 else len(places)
        self._places = places[part_index * share : stop]
        self._label_width = label_width
        self._labels = _read_labels(path_imglist, label_width) if path_imglist else None
        self._shape = shape
        self._order = np.arange(len(self._places))
        seeds = [seed % _SEEDS, shuffle_chunk_seed % _SEEDS]
        self._shuffle = np.random.RandomState(seeds).shuffle if shuffle else None
        self._random = np.random.RandomState(seed if seed_aug is None else seed_aug)
        self._dtype = to_dtype(dtype or "float32")
        self._prepare_labels()
        self._mean_image = self._find_mean_image()
        self.start_round()
        super().__init__(
            len(self._places),
            batch_size,
            bool(round_batch),
            data_name=data_name,
            label_name=label_name,
        )

    def start_round(self) -> None:
        """Shuffle the images."""
        if self._shuffle is not None:
            self._shuffle(self._order)

    def take(self, rows: Rows) -> tuple[NDArray, NDArray]:
        """Return data and label of some images."""
        images, labels = zip(*(self._read(self._order[row]) for row in rows), strict=True)
        return array(np.stack(images), dtype=self._dtype), array(self._stack_labels(labels))

    def _make_augmentation(self, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
        return Augmentation(shape, **options)

    def _prepare_labels(self) -> None:
        """Called before the first image is read."""

    def _stack_labels(self, labels: Sequence[Rows]) -> Rows:
        return np.stack(labels)[:, 0] if self._label_width == 1 else np.stack(labels)

    def _read(self, number: int) -> tuple[Rows, Rows]:
        header, image = self._decoded(number)
        labels = self._labels_of(number, header)
        if len(labels) != self._label_width:
            raise ShapeError(
                f"{self._file.uri}: record {number} has {len(labels)} labels, label_width is "
                f"{self._label_width}"
            )
        return self._normalized(self._augment(image, self._random)), labels

    def _decoded(self, number: int) -> tuple[IRHeader, Rows]:
        header, encoded = self._record(number)
        try:
            return header, decode(encoded, self._shape[0])
        except FormatError as error:
            raise FormatError(f"{self._file.uri}: record {number}: {error}") from None

    def _record(self, number: int) -> tuple[IRHeader, bytes]:
        return unpack(self._file.read_at(self._places[number]))

    def _header(self, number: int) -> IRHeader:
        return self._record(number)[0]

    def _labels_of(self, number: int, header: IRHeader) -> Rows:
        if self._labels is None:
            return np.atleast_1d(np.asarray(header.label, np.float32))
        if header.id not in self._labels:
            raise UsageError(f"{self._file.uri}: path_imglist has no labels of image {header.id}")
        return self._labels[header.id]

    def _normalized(self, image: Rows) -> Rows:
        return self._normalize(image, self._random, self._dtype, self._mean_image)

    def _find_mean_image(self) -> Rows | None:
        """Return the mean image; if its file does not exist, compute it and write the file."""
        path = self._normalize.mean_img
        if not path:
            return None
        if os.path.exists(path):
            return read_mean_image(path, self._shape)
        self._mean_image = None  # for the passes of _read() below
        total = np.zeros(self._shape, dtype=np.float64)
        for number in range(len(self._places)):
            total += self._read(number)[0]
        mean: Rows = (total / len(self._places)).astype(np.float32)
        save(path, {"mean_img": array(mean)})
        return mean


def ImageRecordUInt8Iter(*args: Any, **kwargs: Any) -> ImageRecordIter:
    """Return an ``ImageRecordIter`` of dtype uint8: pixels as they are."""
    return ImageRecordIter(*args, **{**kwargs, "dtype": "uint8"})


def ImageRecordInt8Iter(*args: Any, **kwargs: Any) -> ImageRecordIter:
    """Return an ``ImageRecordIter`` of dtype int8."""
    return ImageRecordIter(*args, **{**kwargs, "dtype": "int8"})


ImageRecordIter_v1 = ImageRecordIter
"""The name of an older implementation of the same in MXNet."""
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter


def _places(file: MXRecordIO, path: str, index: str) -> list[int]:
    """Return the offset of each record."""
    if index:
        indexed = MXIndexedRecordIO(index, path, "r")
        indexed.close()
        return [indexed.idx[key] for key in indexed.keys]
    return list(file.places())


def _read_labels(path: str, width: int) -> Mapping[int, Rows]:
    """Return the labels of each image number of a list: ``number<TAB>labels<TAB>path`` lines.

    A width of -1 accepts any number of labels per line.
    """
    labels = {}
    for number, parts in _lines(path):
        try:
            stop = 1 + width if width > 0 else len(parts) - 1
            labels[int(parts[0])] = np.array(parts[1:stop], dtype=np.float32)
        except ValueError as error:
            raise FormatError(f"{path}, line {number}: {error}") from None
        if len(parts) < 1 + width:
            raise FormatError(f"{path}, line {number}: expected {width} labels, got {parts[1:]}")
    return labels


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line.split()
