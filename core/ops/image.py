"""Image operators: conversion from (H, W, C) to (C, H, W), normalization, crops, resizing, flips.

Operators that accept several images take them stacked along a first axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import ShapeError
from ..imgproc import resize
from ..types import Array, DType, Shape, is_floating
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = [
    "Crop",
    "FlipLeftRight",
    "FlipTopBottom",
    "Normalize",
    "Resize",
    "ToTensor",
    "check_image",
    "flipped",
]

_FLOAT32 = np.dtype("float32")


def check_image(shape: Shape, *dimensions: int) -> None:
    """Raise ShapeError for a wrong number of dimensions."""
    if len(shape) not in dimensions:
        layouts = " or ".join(str(count) for count in dimensions)
        raise ShapeError(f"data has shape {shape}; expected {layouts} dimensions")


@register("_image_to_tensor")
class ToTensor(Operator):
    """Convert (H, W, C) of 0 to 255 to float32 (C, H, W) of 0 to 1; also for stacked images."""

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        check_image(data, 3, 4)
        expected = (*data[:-3], data[-1], *data[-3:-1])
        return inputs, [self.expect("output", outputs[0], expected)]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], _FLOAT32)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        channels_first = inputs[0].transpose((2, 0, 1) if inputs[0].ndim == 3 else (0, 3, 1, 2))
        run.xp.divide(channels_first, 255, out=outputs[0], dtype=_FLOAT32)


@register("_image_normalize")
class Normalize(Operator):
    """``(data - mean) / std`` for each channel of (C, H, W); also for stacked images."""

    mean: tuple[float, ...] = attribute((0.0,), doc="one number, or one for each channel")
    std: tuple[float, ...] = attribute((1.0,), doc="one number, or one for each channel")

    def backward_reads(self) -> Reads:
        return Reads()

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = self.expect("output", outputs[0], inputs[0])
        if common is not None:
            check_image(common, 3, 4)
            channels = common[-3]
            for name, given in (("mean", self.mean), ("std", self.std)):
                if channels and len(given) not in (1, channels):
                    raise ShapeError(
                        f"{name} is {given}; expected one number, or {channels} for the channels "
                        f"of data {common}"
                    )
        return [common], [common]

    def _per_channel(self, run: Run, numbers: tuple[float, ...], dtype: DType) -> Array:
        return run.xp.asarray(numbers, dtype=dtype).reshape(-1, 1, 1)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        dtype = outputs[0].dtype
        if is_floating(dtype):
            run.xp.subtract(inputs[0], self._per_channel(run, self.mean, dtype), out=outputs[0])
            outputs[0][...] /= self._per_channel(run, self.std, dtype)
            return
        scaled = run.scratch(inputs[0].shape, "float32")  # of integers the whole part
        run.xp.subtract(inputs[0], self._per_channel(run, self.mean, scaled.dtype), out=scaled)
        scaled /= self._per_channel(run, self.std, scaled.dtype)
        run.xp.copyto(outputs[0], scaled, casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dtype = out_grads[0].dtype
        divisor = self._per_channel(run, self.std, dtype if is_floating(dtype) else _FLOAT32)
        run.xp.divide(out_grads[0], divisor, out=in_grads[0], casting="unsafe")


@register("_image_crop")
class Crop(Operator):
    """Crop ``height`` rows and ``width`` columns of (H, W, C), from (y, x); also for stacked
    images."""

    x: int = attribute(minimum=0, doc="first column")
    y: int = attribute(minimum=0, doc="first row")
    width: int = attribute(minimum=1, doc="number of columns")
    height: int = attribute(minimum=1, doc="number of rows")

    def backward_reads(self) -> Reads:
        return Reads()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        check_image(data, 3, 4)
        rows, columns = data[-3:-1]
        if (rows and self.y + self.height > rows) or (columns and self.x + self.width > columns):
            raise ShapeError(
                f"rows {self.y} to {self.y + self.height} and columns {self.x} to "
                f"{self.x + self.width} do not lie in data {data}"
            )
        expected = (*data[:-3], self.height, self.width, data[-1])
        return inputs, [self.expect("output", outputs[0], expected)]

    def _part(self, images: Array) -> Any:
        rows = slice(self.y, self.y + self.height)
        return images[..., rows, slice(self.x, self.x + self.width), :]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], self._part(inputs[0]))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        in_grads[0].fill(0)
        self._part(in_grads[0])[...] = out_grads[0]


@register("_image_resize")
class Resize(Operator):
    """Resize images (H, W, C) the way OpenCV does; also for stacked images."""

    size: tuple[int, ...] = attribute(
        (), minimum=1, maximum=2**15, doc="(width, height), or one number for both"
    )
    keep_ratio: bool = attribute(
        False,
        doc="whether a single number is the size of the shorter side, keeping the aspect ratio",
    )
    interp: int = attribute(1, minimum=0, maximum=4, doc="see ``core.imgproc.kernels``")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        check_image(data, 3, 4)
        expected = (*data[:-3], *self._new_size(*data[-3:-1]), data[-1])
        return inputs, [self.expect("output", outputs[0], expected)]

    def _new_size(self, height: int, width: int) -> tuple[int, int]:
        if len(self.size) == 2:
            return self.size[1], self.size[0]
        if len(self.size) != 1:
            raise ShapeError(f"size is {self.size}; expected (width, height) or one number")
        (length,) = self.size
        if not self.keep_ratio:
            return length, length
        if height > width:
            return int(height * length / width) if width else 0, length
        return length, int(width * length / height) if height else 0

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        shape = outputs[0].shape
        images = inputs[0].reshape(-1, *inputs[0].shape[-3:])
        for image, out in zip(images, outputs[0].reshape(-1, *shape[-3:]), strict=True):
            # ``core.imgproc`` works on NumPy arrays only.
            on_host = image if isinstance(image, np.ndarray) else image.get()
            out[...] = run.xp.asarray(resize(on_host, shape[-3:-1], self.interp))


def flipped(image: Array, axis: int) -> Array:
    """Return a view of an image (H, W, C) with its rows (axis 0) or columns in reverse order."""
    return image[:, ::-1] if axis else image[::-1]


class _Flip(Operator):
    """Base: one image (H, W, C) with an axis reversed."""

    axis: ClassVar[int]

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = self.expect("output", outputs[0], inputs[0])
        if common is not None:
            check_image(common, 3)
        return [common], [common]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], flipped(inputs[0], self.axis))


@register("_image_flip_left_right")
class FlipLeftRight(_Flip):
    """An image (H, W, C) with its columns in reverse order."""

    axis: ClassVar[int] = 1


@register("_image_flip_top_bottom")
class FlipTopBottom(_Flip):
    """An image (H, W, C) with its rows in reverse order."""

    axis: ClassVar[int] = 0
