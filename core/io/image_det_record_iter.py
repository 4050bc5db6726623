"""Batches of images with bounding boxes from RecordIO files, for detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from ..errors import ShapeError, UsageError
from .det_augmentation import DetAugmentation
from .image_record_iter import ImageRecordIter
from .normalization import Normalization
from .row_iter import Rows

__all__ = ["ImageDetRecordIter"]

_HEAD = 4
"""Numbers before a label: channels, height and width of the image, and the label's length."""
_LEAST_HEAD, _LEAST_OBJECT = 2, 5
_NOT_NORMALIZING = {"mirror", "rand_mirror", "max_random_contrast", "max_random_illumination"}
"""Options that MXNet's iterator for detectors does not have, or that mean an augmentation there."""


class ImageDetRecordIter(ImageRecordIter):
    """Images, and labels (batch, 4 + label_pad_width).

    A label is the image's channels, height and width in the batch, the length of what follows, and
    that: the width of its header (2 or more), the width of an object (5 or more), the rest of the
    header, and the objects: class, left, top, right, bottom as fractions of the image, and any
    further numbers. The rest is padding.

    Args:
        path_imgrec, data_shape, batch_size: as for ``ImageRecordIter``.
        label_width: numbers of a label as stored; -1 for any.
        label_pad_width: numbers of a label in the batch; 0 for those of the longest label.
        label_pad_value: what labels are padded with.
        aug_seq: ``"det_aug_default"``, the only augmenter.
        **options: other arguments of ``ImageRecordIter``; the means, divisors and the scale of
            ``core.io.normalization.Normalization``, where a divisor of 0 is none; and see
            ``core.io.det_augmentation.DetAugmentation``.

    Raises:
        ShapeError: a label of another form or length.
    """

    normalizing: ClassVar[frozenset[str]] = (
        frozenset(field.name for field in fields(Normalization)) - _NOT_NORMALIZING
    )

    def __init__(
        self,
        path_imgrec: str,
        data_shape: Sequence[int],
        batch_size: int,
        label_width: int = -1,
        label_pad_width: int = 0,
        label_pad_value: float = -1.0,
        aug_seq: str = "det_aug_default",
        **options: Any,
    ) -> None:
        if aug_seq != "det_aug_default":
            raise UsageError(f"aug_seq is {aug_seq!r}; the only augmenter is 'det_aug_default'")
        for name in ("std_r", "std_g", "std_b", "std_a"):
            options[name] = options.get(name) or 1.0
        self._pad_width, self._pad_value = label_pad_width, label_pad_value
        super().__init__(path_imgrec, data_shape, batch_size, label_width=label_width, **options)

    def _make_augmentation(self, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
        return DetAugmentation(shape, **options)

    def _prepare_labels(self) -> None:
        longest = max((len(self._stored_label(n)) for n in range(len(self._places))), default=0)
        if 0 < self._pad_width < longest:
            raise ShapeError(
                f"label_pad_width is {self._pad_width}; the longest label has {longest} numbers"
            )
        self._pad_width = max(self._pad_width, longest)

    def _stack_labels(self, labels: Sequence[Rows]) -> Rows:
        return np.stack(labels)

    def _stored_label(self, number: int) -> Rows:
        label = self._labels_of(number, self._header(number))
        if self._label_width > 0 and len(label) != self._label_width:
            raise ShapeError(
                f"{self._file.uri}: record {number} has {len(label)} labels, label_width is "
                f"{self._label_width}"
            )
        head, width = (int(label[0]), int(label[1])) if len(label) > 1 else (0, 0)
        if head < _LEAST_HEAD or width < _LEAST_OBJECT or (len(label) - head) % width:
            raise ShapeError(
                f"{self._file.uri}: record {number} has a label of {len(label)} numbers with a "
                f"head of {head} and objects of {width}; expected a head of 2 or more and whole "
                "objects of 5 or more"
            )
        return label

    def _read(self, number: int) -> tuple[Rows, Rows]:
        _, image = self._decoded(number)
        stored = self._stored_label(number)
        head, width = int(stored[0]), int(stored[1])
        boxes = stored[head:].reshape(-1, width)
        boxes = boxes[(boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])]
        image, boxes = self._augment(image, boxes, self._random)
        found = np.concatenate([stored[:head], boxes.ravel()])
        label = np.full(_HEAD + self._pad_width, self._pad_value, dtype=np.float32)
        label[:_HEAD] = (image.shape[2], *image.shape[:2], len(found))
        label[_HEAD : _HEAD + len(found)] = found
        canvas = np.zeros((*self._shape[1:], self._shape[0]), dtype=np.uint8)
        canvas[: image.shape[0], : image.shape[1]] = image
        return self._normalized(canvas), label
