"""Batches of images with bounding boxes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import UsageError
from ...ndarray import NDArray, full
from ..image_iter import ImageIter
from .augmenters import Boxes
from .creation import CreateDetAugmenter
from .drawing import draw_boxes, restored

__all__ = ["ImageDetIter"]

_LEAST_LABEL = 7
"""Length of the smallest label: width of its header, width of an object, and one object."""
_LEAST_OBJECT = 5
_NO_OBJECT = -1.0


class ImageDetIter(ImageIter):
    """Images, and labels (batch, most objects of an image, numbers of an object).

    A label is stored as the width of its header (2 or more), the width of an object (5 or more),
    the rest of the header, and the objects: class, left, top, right, bottom as fractions of the
    image, and any further numbers. In a batch labels are padded with -1.

    Args:
        batch_size: images in a batch.
        data_shape: (3, height, width).
        aug_list: augmenters; None for those of ``CreateDetAugmenter`` with ``kwargs``.
        path_imgrec, path_imglist, path_root, path_imgidx, shuffle, part_index, num_parts, imglist,
        data_name, label_name, last_batch_handle: as of ``mx.image.ImageIter``.
        **kwargs: arguments of ``CreateDetAugmenter``.

    Raises:
        RuntimeError: a malformed label.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, ...],
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
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            batch_size,
            data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
        )
        self.auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.label_shape = self._estimate_label_shape()
        self._set_label_shape(self.label_shape)

    def reshape(
        self, data_shape: tuple[int, ...] | None = None, label_shape: tuple[int, int] | None = None
    ) -> None:
        """Change the shape of images, or (objects, numbers of an object) of labels.

        Raises:
            ValueError: fewer objects than the labels have, or a different width of an object.
        """
        if data_shape is not None:
            self.check_data_shape(data_shape)
            name = self.provide_data[0][0]
            self.provide_data = [(name, (self.batch_size, *data_shape))]  # type: ignore[list-item]
            self.data_shape = tuple(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self._set_label_shape(label_shape)

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """Raise ValueError for a shape that is too small for the labels."""
        if len(label_shape) != 2:
            raise ValueError("label_shape should have length 2")
        if label_shape[0] < self.label_shape[0]:
            raise ValueError(
                f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, "
                "not allowed."
            )
        if label_shape[1] != self.label_shape[1]:
            raise ValueError(
                f"label_shape object width inconsistent: {self.label_shape[1]} vs {label_shape[1]}."
            )

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this and another iterator the same (larger) label shape; return the other."""
        if not isinstance(it, ImageDetIter):
            raise UsageError(f"Synchronize with invalid iterator: {it!r}")
        if self.label_shape[1] != it.label_shape[1]:
            raise UsageError(f"object width mismatch: {self.label_shape[1]}, {it.label_shape[1]}")
        shape = (max(self.label_shape[0], it.label_shape[0]), self.label_shape[1])
        if verbose and self.label_shape != it.label_shape:
            logging.info("Resized label_shape to (%d, %d).", *shape)
        for one in (self, it):
            one.reshape(None, shape)
        return it

    def draw_next(
        self,
        color: Sequence[int] | None = None,
        thickness: int = 2,
        mean: Any = None,
        std: Any = None,
        clip: bool = True,
        waitKey: int | None = None,
        window_name: str = "draw_next",
        id2labels: Mapping[int, str] | None = None,
    ) -> Iterator[np.ndarray[Any, Any]]:
        """Yield images (height, width, 3), uint8, BGR, with their boxes drawn.

        Args:
            color: of the boxes; None for random colors.
            thickness: of their lines.
            mean, std: the normalization to undo; True for ImageNet's.
            clip: clip values to 0 to 255.
            waitKey, window_name: ignored: no window is opened.
            id2labels: names of the classes, drawn into the boxes.
        """
        if waitKey is not None:
            warnings.warn(f"there is no window {window_name!r}; show the images", stacklevel=2)
        while True:
            try:
                label, encoded = self.next_sample()
            except StopIteration:
                return
            try:
                boxes = self._parse_label(label)
            except RuntimeError as error:
                logging.debug("Invalid image, skipping:  %s", error)
                continue
            image, boxes = self.augmentation_transform(self.imdecode(encoded), boxes)
            pixels = restored(image.asnumpy(), mean, std, clip)
            yield draw_boxes(pixels, boxes, color, thickness, id2labels)[..., ::-1]

    # -- labels -----------------------------------------------------------------------------

    def _set_label_shape(self, shape: tuple[int, int]) -> None:
        name = self.provide_label[0][0]
        self.provide_label = [(name, (self.batch_size, *shape))]  # type: ignore[list-item]
        self.label_shape = (shape[0], shape[1])

    def _estimate_label_shape(self) -> tuple[int, int]:
        """Return the largest number of objects of an image, and the width of an object."""
        self.reset()
        count = width = 0
        try:
            while True:
                boxes = self._parse_label(self.next_sample()[0])
                count, width = max(count, boxes.shape[0]), boxes.shape[1]
        except StopIteration:
            pass
        self.reset()
        return count, width

    def _parse_label(self, label: Any) -> Boxes:
        """Return the objects (count, width) of a stored label, dropping those without area."""
        numbers = label.asnumpy() if isinstance(label, NDArray) else np.asarray(label)
        numbers = numbers.ravel()
        if numbers.size < _LEAST_LABEL:
            raise RuntimeError(f"Label shape is invalid: {numbers.shape}")
        head, width = int(numbers[0]), int(numbers[1])
        if width < _LEAST_OBJECT or head < 2 or (numbers.size - head) % width:
            raise RuntimeError(
                f"Label shape {numbers.shape} inconsistent with annotation width {width} and head "
                f"{head}."
            )
        boxes: Boxes = numbers[head:].reshape(-1, width)
        boxes = boxes[(boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])]
        if not len(boxes):
            raise RuntimeError("Encounter sample with no valid label.")
        return boxes

    def _check_valid_label(self, label: Boxes) -> None:
        if label.ndim != 2 or label.shape[1] < _LEAST_OBJECT:
            raise RuntimeError(f"Label with shape (1+, 5+) required, {label} received.")
        if not ((label[:, 0] >= 0) & (label[:, 3] > label[:, 1])).any():
            raise RuntimeError("Invalid label occurs.")

    # -- batches ----------------------------------------------------------------------------

    def _new_batch(self) -> tuple[NDArray, NDArray]:
        data, _ = super()._new_batch()
        return data, full(self.provide_label[0][1], _NO_OBJECT)

    def _batchify(self, batch_data: NDArray, batch_label: NDArray, start: int = 0) -> int:
        """Fill a batch from position ``start``; images without valid objects are skipped."""
        place = start
        try:
            while place < self.batch_size:
                label, encoded = self.next_sample()
                image = self.imdecode(encoded)
                try:
                    self.check_valid_image([image])
                    image, boxes = self.augmentation_transform(image, self._parse_label(label))
                    self._check_valid_label(boxes)
                except RuntimeError as error:
                    logging.debug("Invalid image, skipping:  %s", error)
                    continue
                padded = np.full(batch_label.shape[1:], _NO_OBJECT, dtype=np.float32)
                padded[: len(boxes)] = boxes
                batch_data[place] = self.postprocess_data(image)
                batch_label[place] = padded
                place += 1
        except StopIteration:
            if not place:
                raise
        return place

    def augmentation_transform(  # type: ignore[override]
        self, data: NDArray, label: Boxes
    ) -> tuple[NDArray, Boxes]:
        """Return image and boxes after all augmenters."""
        for augment in self.auglist:
            data, label = augment(data, label)
        return data, label
