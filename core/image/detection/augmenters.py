"""Augmenters of images together with their bounding boxes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ndarray import NDArray, flip
from ..augmenters import Augmenter, Described

__all__ = [
    "Boxes",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomSelectAug",
]

Boxes = np.ndarray[Any, Any]


class DetAugmenter(Described):
    """Base of augmenters of an image and its boxes."""

    def __call__(self, src: NDArray, label: Boxes) -> tuple[NDArray, Boxes]:
        """Return the augmented image and boxes, which may be the same arrays."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class DetBorrowAug(DetAugmenter):
    """Applies an image augmenter that does not move boxes.

    Raises:
        TypeError: it is not an augmenter of images.
    """

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError(f"Borrowing from invalid Augmenter: {augmenter!r}")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> list[Any]:
        """Return its name and the augmenter's."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: NDArray, label: Boxes) -> tuple[NDArray, Boxes]:
        """Return the augmented image and the same boxes."""
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """Applies one randomly selected augmenter, or none.

    Args:
        aug_list: the augmenters, or one.
        skip_prob: probability of none.

    Raises:
        ValueError: one of them is no ``DetAugmenter``.
    """

    def __init__(
        self, aug_list: Sequence[DetAugmenter] | DetAugmenter, skip_prob: float = 0
    ) -> None:
        super().__init__(skip_prob=skip_prob)
        chosen: list[DetAugmenter]
        chosen = list(aug_list) if isinstance(aug_list, Sequence) else [aug_list]
        for one in chosen:
            if not isinstance(one, DetAugmenter):
                raise ValueError(f"Allow DetAugmenter in list only, got {one!r}")
        self.aug_list = chosen
        self.skip_prob = skip_prob if chosen else 1

    def dumps(self) -> list[Any]:
        """Return its name and those of its augmenters."""
        return [type(self).__name__.lower(), [one.dumps() for one in self.aug_list]]

    def __call__(self, src: NDArray, label: Boxes) -> tuple[NDArray, Boxes]:
        """Return image and boxes after the selected augmenter."""
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Mirrors image and boxes with a given probability."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray, label: Boxes) -> tuple[NDArray, Boxes]:
        """Return image and boxes; mirrored boxes are changed in place."""
        if random.random() < self.p:
            src = flip(src, axis=1)
            label[:, [1, 3]] = 1.0 - label[:, [3, 1]]
        return src, label
