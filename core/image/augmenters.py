"""Augmenters that resize, crop and mirror images."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..compat.image_arguments import renamed_area
from ..ndarray import NDArray, flip
from .cropping import (
    center_crop,
    random_crop,
    random_size_crop,
    resize_short,
)
from .reading import choose_interpolation, imresize

__all__ = [
    "Augmenter",
    "CastAug",
    "CenterCropAug",
    "Described",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "RandomCropAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SequentialAug",
]

Size = Sequence[int]


class Described:
    """Base of objects that can describe their constructor arguments."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: _plain(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Return its name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])


class Augmenter(Described):
    """Base of augmenters, which turn one image (height, width, channels) into another."""

    def __call__(self, src: NDArray) -> NDArray:
        """Return the augmented image, which may be the same array."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class SequentialAug(Augmenter):
    """Applies augmenters in order."""

    def __init__(self, ts: list[Callable[[NDArray], NDArray]]) -> None:
        super().__init__()
        self.ts = ts

    def dumps(self) -> list[Any]:
        """Return its name and those of its augmenters."""
        return [type(self).__name__.lower(), [one.dumps() for one in self.ts]]  # type: ignore[attr-defined]

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image after all augmenters."""
        for augment in self.ts:
            src = augment(src)
        return src


class RandomOrderAug(SequentialAug):
    """Applies augmenters in a new random order every time."""

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image after all augmenters."""
        random.shuffle(self.ts)
        return super().__call__(src)


class ResizeAug(Augmenter):
    """Resizes so that the shorter edge has a given length."""

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        """Return the resized image."""
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resizes to a given (width, height)."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        """Return the resized image."""
        sizes = (*src.shape[:2], self.size[1], self.size[0])
        method = choose_interpolation(self.interp, sizes)
        return imresize(src, self.size[0], self.size[1], method)


class RandomCropAug(Augmenter):
    """Crops a (width, height) at a random place."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        """Return the crop."""
        return random_crop(src, self.size, self.interp)[0]


class CenterCropAug(Augmenter):
    """Crops a (width, height) from the center."""

    def __init__(self, size: Size, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray) -> NDArray:
        """Return the crop."""
        return center_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crops a random area of random shape; see ``random_size_crop`` for the arguments."""

    def __init__(
        self,
        size: Size,
        area: float | Sequence[float],
        ratio: Sequence[float],
        interp: int = 2,
        **kwargs: Any,
    ) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.ratio, self.interp = size, ratio, interp
        self.area = renamed_area(area, kwargs, "RandomSizedCropAug")

    def __call__(self, src: NDArray) -> NDArray:
        """Return the crop, resized to ``size``."""
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class HorizontalFlipAug(Augmenter):
    """Mirrors the image with a given probability."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image or its mirror image."""
        return flip(src, axis=1) if random.random() < self.p else src


class CastAug(Augmenter):
    """Casts the pixels to a dtype."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image of that dtype."""
        return src.astype(self.typ)


def _plain(value: Any) -> Any:
    """Return arrays as lists."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if isinstance(value, np.ndarray) else value
