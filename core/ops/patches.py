"""The operators ``im2col`` and ``col2im``: windows of images as columns, and sums of columns as
images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, ShapeError
from ..types import Array, Shape, is_known, shape_size
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register
from .window import Window, check_window

__all__ = ["ColumnsToImage", "ImageToColumns"]


class _Patches(Operator):
    """Base. Images are (N, C, *spatial), columns (N, C * kernel size, windows)."""

    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape

    def __post_init__(self) -> None:
        check_window(self.kernel, stride=self.stride, dilate=self.dilate, pad=self.pad)

    def backward_reads(self) -> Reads:
        return Reads()

    @property
    def window(self) -> Window:
        """Size, stride, dilation and padding."""
        ones = (1,) * len(self.kernel)
        zeros = (0,) * len(self.kernel)
        return Window(self.kernel, self.stride or ones, self.dilate or ones, self.pad or zeros)

    def window_counts(self, spatial: Shape) -> Shape:
        """Return the number of windows along each axis of an image; raise ShapeError if there are
        none."""
        counts = self.window.counts(spatial)
        if min(counts) < 1:
            raise ShapeError(f"no window of kernel {self.kernel} fits into an image of {spatial}")
        return counts

    def _padded(self, run: Run, images: Array) -> tuple[Array, Array]:
        """Return scratch memory for padded images, and its part without the padding."""
        window = self.window
        sizes = tuple(
            size + 2 * pad for size, pad in zip(images.shape[2:], window.pad, strict=True)
        )
        padded = run.scratch((*images.shape[:2], *sizes), images.dtype)
        padded.fill(0)
        inner = tuple(
            slice(pad, pad + size) for size, pad in zip(images.shape[2:], window.pad, strict=True)
        )
        return padded, padded[(..., *inner)]

    def gather(self, run: Run, images: Array, columns: Array) -> None:
        """Write every window's elements into a column."""
        window, counts = self.window, self.window_counts(images.shape[2:])
        padded, inner = self._padded(run, images)
        inner[...] = images
        target = columns.reshape(*images.shape[:2], math.prod(self.kernel), *counts)
        for place, position in enumerate(window.positions()):
            target[:, :, place] = padded[(..., *window.padded_slices(position, counts))]

    def scatter(self, run: Run, columns: Array, images: Array) -> None:
        """Write images whose elements are the sums over all windows that cover them."""
        window, counts = self.window, self.window_counts(images.shape[2:])
        padded, inner = self._padded(run, images)
        source = columns.reshape(*images.shape[:2], math.prod(self.kernel), *counts)
        for place, position in enumerate(window.positions()):
            padded[(..., *window.padded_slices(position, counts))] += source[:, :, place]
        images[...] = inner


@register("im2col")
@implements(kinds.IMAGE_TO_COLUMNS)
class ImageToColumns(_Patches):
    """The windows of images as columns: (N, C, *spatial) gives (N, C * kernel size, windows)."""

    names_outputs: ClassVar[bool] = True

    kernel: Shape = attribute(minimum=1, doc="size of the windows")
    stride: Shape = attribute((), minimum=1, doc="distance between windows; default 1")
    dilate: Shape = attribute((), minimum=1, doc="distance between a window's elements; default 1")
    pad: Shape = attribute((), minimum=0, doc="zeros around the image; default none")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) != len(self.kernel) + 2:
            raise ShapeError(f"data has shape {data}; expected (N, C, ...) of kernel {self.kernel}")
        if not is_known(data[1:]):
            return inputs, outputs
        rows = data[1] * shape_size(self.kernel)
        expected = (data[0], rows, shape_size(self.window_counts(data[2:])))
        return inputs, [self.expect("output", outputs[0], expected)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.gather(run, inputs[0], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        self.scatter(run, out_grads[0], in_grads[0])


@register("col2im")
@implements(kinds.COLUMNS_TO_IMAGE)
class ColumnsToImage(_Patches):
    """Images that sum the columns of overlapping windows: the gradient of ``im2col``."""

    names_outputs: ClassVar[bool] = True

    output_size: Shape = attribute(minimum=1, doc="spatial shape of the images")
    kernel: Shape = attribute(minimum=1, doc="size of the windows")
    stride: Shape = attribute((), minimum=1, doc="distance between windows; default 1")
    dilate: Shape = attribute((), minimum=1, doc="distance between a window's elements; default 1")
    pad: Shape = attribute((), minimum=0, doc="zeros around the image; default none")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window(self.kernel)
        if len(self.output_size) != len(self.kernel):
            raise AttributeValueError(
                f"output_size is {self.output_size}; expected one for each of the "
                f"{len(self.kernel)} axes of kernel"
            )

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        size = shape_size(self.kernel)
        windows = shape_size(self.window_counts(self.output_size))
        if len(data) != 3 or data[1] % size or data[2] not in (0, windows):
            raise ShapeError(
                f"data has shape {data}; expected (N, C * {size}, {windows}) of kernel "
                f"{self.kernel} and images of {self.output_size}"
            )
        expected = (data[0], data[1] // size, *self.output_size)
        return [(*data[:2], windows)], [self.expect("output", outputs[0], expected)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.scatter(run, inputs[0], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        self.gather(run, out_grads[0], in_grads[0])
