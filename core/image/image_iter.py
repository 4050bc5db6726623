"""Batches of images from record files, lists and folders, each changed by augmenters."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import FormatError, MXNetError, UsageError
from ..io import DataBatch, DataIter
from ..ndarray import NDArray, array, empty, transpose, zeros
from ..recordio import MXIndexedRecordIO, MXRecordIO, unpack
from .creation import CreateAugmenter
from .reading import imdecode

__all__ = ["ImageIter"]

_LABEL_DTYPES = ("int32", "float32", "int64", "float64")

Listed = dict[Any, tuple[NDArray, str]]
"""Labels and file of each image."""


class ImageIter(DataIter):
    """Images and labels in batches (batch, channels, height, width), RGB.

    Args:
        batch_size: images in a batch.
        data_shape: (3, height, width).
        label_width: labels of an image.
        path_imgrec: file of records with the images.
        path_imglist: list of the images: ``number<TAB>labels<TAB>path`` lines.
        path_root: folder of the images of a list.
        path_imgidx: index of the record file; needed for ``shuffle`` and ``num_parts``.
        shuffle: use a new random order in every epoch.
        part_index, num_parts: read only part ``part_index`` of ``num_parts`` equal parts.
        aug_list: augmenters; None for those of ``CreateAugmenter`` with ``kwargs``.
        imglist: a list in place of the file: [label or labels, path] for each image.
        data_name, label_name: names of the inputs.
        dtype: of the labels of lists.
        last_batch_handle: ``"pad"`` fills the last batch from the start, ``"discard"`` drops it,
            ``"roll_over"`` keeps its images for the next epoch.
        **kwargs: arguments of ``CreateAugmenter``.

    Raises:
        UsageError: no source of images, or arguments that contradict each other.
        ValueError: an unsupported ``data_shape``.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, ...],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[Any] | None = None,
        imglist: Sequence[Any] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise UsageError("give path_imgrec, path_imglist or imglist: where are the images?")
        if dtype not in _LABEL_DTYPES:
            raise UsageError(f"{dtype} label not supported; use one of {_LABEL_DTYPES}")
        self.check_data_shape(data_shape)
        self.path_root = path_root
        self.imgrec, self.imgidx = _open_records(path_imgrec, path_imgidx)
        self.imglist: Listed | None = None
        if path_imglist:
            self.imglist = _read_list(path_imglist, dtype)
        elif isinstance(imglist, list):
            self.imglist = _as_listed(imglist, dtype)
        label_shape = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_data = [(data_name, (batch_size, *data_shape))]  # type: ignore[list-item]
        self.provide_label = [(label_name, label_shape)]  # type: ignore[list-item]
        self.data_shape = tuple(data_shape)
        self.label_width = label_width
        self.shuffle = shuffle
        self.seq = self._choose_order(part_index, num_parts)
        self.auglist: Any = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.cur = 0
        self.last_batch_handle = last_batch_handle
        self.num_image = None if self.seq is None else len(self.seq)
        self._allow_read = True
        self._cache: tuple[NDArray, NDArray, int] | None = None
        self.reset()

    def _choose_order(self, part_index: int, num_parts: int) -> list[Any] | None:
        """Return the keys of this part's images, or None to read records in file order."""
        if self.imgrec is None:
            assert self.imglist is not None
            order = list(self.imglist)
        elif self.imgidx is not None:
            order = self.imgidx
        elif self.shuffle or num_parts > 1:
            raise UsageError("shuffle and num_parts of a record file need path_imgidx")
        else:
            return None
        if num_parts > 1:
            if not 0 <= part_index < num_parts:
                raise UsageError(f"part_index {part_index} is not among {num_parts} parts")
            share = len(order) // num_parts
            order = order[part_index * share : (part_index + 1) * share]
        return order

    # -- rounds -----------------------------------------------------------------------------

    def reset(self) -> None:
        """Go back to the start, keeping images that roll over."""
        self._shuffle()
        # With images that roll over, next_sample() has gone back to the start at the end.
        if self.last_batch_handle != "roll_over" or self._cache is None:
            self._rewind()

    def hard_reset(self) -> None:
        """Go back to the start, dropping images that roll over."""
        self._shuffle()
        self._rewind()
        self._cache = None

    def _shuffle(self) -> None:
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)

    def _rewind(self) -> None:
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur = 0
        self._allow_read = True

    def next_sample(self) -> tuple[Any, bytes]:
        """Return the label and the file's bytes of the next image; StopIteration at the end."""
        if not self._allow_read:
            raise StopIteration
        if self.seq is None:
            return self._next_record()
        if self.cur >= len(self.seq):
            # Images that fill the last batch, now or in the next epoch, come from the start.
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            assert self.imglist is not None
            label, name = self.imglist[key]
            return label, self.read_image(name)
        assert isinstance(self.imgrec, MXIndexedRecordIO)
        header, encoded = unpack(self.imgrec.read_idx(key) or b"")
        return (header.label if self.imglist is None else self.imglist[key][0]), encoded

    def _next_record(self) -> tuple[Any, bytes]:
        assert self.imgrec is not None
        record = self.imgrec.read()
        if record is None:
            if self.last_batch_handle != "discard":
                self.imgrec.reset()
            raise StopIteration
        header, encoded = unpack(record)
        return header.label, encoded

    def next(self) -> DataBatch:
        """Return the next batch; raise StopIteration at the end."""
        rolled = self._cache
        if rolled is not None:
            data, label, count = rolled
        else:
            data, label = self._new_batch()
            count = self._batchify(data, label)
        pad = self.batch_size - count
        if pad:
            if self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over" and rolled is None:
                self._cache = (data, label, count)
                raise StopIteration
            self._batchify(data, label, count)
            if self.last_batch_handle == "pad":
                self._allow_read = False  # a padded batch is the last; the start has been read
            else:
                self._cache = None
        return DataBatch([data], [label], pad=pad)

    def _new_batch(self) -> tuple[NDArray, NDArray]:
        return zeros((self.batch_size, *self.data_shape)), empty(self.provide_label[0][1])

    def _batchify(self, batch_data: NDArray, batch_label: NDArray, start: int = 0) -> int:
        """Fill a batch from position ``start``; return where it ends. Empty images are skipped.

        Raises:
            StopIteration: there is no further image at all.
        """
        place = start
        try:
            while place < self.batch_size:
                label, encoded = self.next_sample()
                image = self.imdecode(encoded)
                try:
                    self.check_valid_image([image])
                except RuntimeError as error:
                    logging.debug("Invalid image, skipping:  %s", error)
                    continue
                image = self.augmentation_transform(image)
                batch_data[place] = self.postprocess_data(image)
                batch_label[place] = _label(label, batch_label.shape[1:])
                place += 1
        except StopIteration:
            if not place:
                raise
        return place

    # -- steps that subclasses replace ------------------------------------------------------

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Raise ValueError unless the shape is (3, height, width)."""
        if len(data_shape) != 3:
            raise ValueError("data_shape should have length 3, with dimensions CxHxW")
        if data_shape[0] != 3:
            raise ValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data: Sequence[NDArray]) -> None:
        """Raise RuntimeError for an image without dimensions."""
        if len(data[0].shape) == 0:
            raise RuntimeError("Data shape is wrong")

    def imdecode(self, s: bytes) -> NDArray:
        """Return the image of a file's bytes; RuntimeError says which image is broken."""
        try:
            return imdecode(s)
        except MXNetError as error:
            raise RuntimeError(f"Broken image {self._last_sample()}, {error}") from error

    def _last_sample(self) -> str:
        if self.seq is None:
            return f"after {self.cur} images"
        key = self.seq[self.cur - 1]
        return f"index: {key}" if self.imglist is None else f"filename: {self.imglist[key][1]}"

    def read_image(self, fname: str) -> bytes:
        """Return the bytes of a file under ``path_root``."""
        with open(os.path.join(self.path_root or "", fname), "rb") as stream:
            return stream.read()

    def augmentation_transform(self, data: NDArray) -> NDArray:
        """Return the image after all augmenters."""
        for augment in self.auglist:
            data = augment(data)
        return data

    def postprocess_data(self, datum: NDArray) -> NDArray:
        """Transpose (height, width, channels) to (channels, height, width)."""
        planes: NDArray = transpose(datum, axes=(2, 0, 1))
        return planes


def _label(label: Any, shape: tuple[int, ...]) -> Any:
    """Convert a label to the form of one entry of a batch."""
    values = label.asnumpy() if isinstance(label, NDArray) else np.asarray(label)
    if not shape and values.size == 1:
        return float(values.reshape(()))
    if values.shape != shape:
        raise UsageError(f"an image has labels of shape {values.shape}; label_width says {shape}")
    return values


def _open_records(
    records: str | None, index: str | None
) -> tuple[MXRecordIO | None, list[Any] | None]:
    if not records:
        return None, None
    if not index:
        return MXRecordIO(records, "r"), None
    indexed = MXIndexedRecordIO(index, records, "r")
    return indexed, list(indexed.keys)


def _read_list(path: str, dtype: str) -> Listed:
    listed: Listed = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            parts = line.strip().split("\t")
            try:
                labels = np.array(parts[1:-1], dtype=np.float64)
                listed[int(parts[0])] = (array(labels, dtype=dtype), parts[-1])
            except ValueError as error:
                raise FormatError(f"{path}, line {number}: {error}") from None
    return listed


def _as_listed(imglist: Sequence[Any], dtype: str) -> Listed:
    """Return a list's images by number from "1", as MXNet names them."""
    listed: Listed = {}
    for number, (*labels, path) in enumerate(imglist, 1):
        values = np.asarray(labels if len(labels) > 1 else np.atleast_1d(labels[0]))
        listed[str(number)] = (array(values, dtype=dtype), path)
    return listed
