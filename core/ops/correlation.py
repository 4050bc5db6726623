"""Correlation of the patches around each position of two images (Dosovitskiy et al., "FlowNet")."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

from ..errors import AttributeValueError, ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register

__all__ = ["Correlation"]

_Slices = tuple[slice, slice, slice, slice]


@register("Correlation")
class Correlation(Operator):
    """Compare the patch around each position of one image with nearby patches of the other.

    Both images are (batch, channels, height, width). The output has a channel for each
    displacement: up to ``max_displacement`` in steps of ``stride2``, down and across; its positions
    are ``stride1`` apart. It is the mean, over the patch and all channels, of products or of
    absolute differences.
    """

    names_outputs: ClassVar[bool] = True

    kernel_size: int = attribute(1, minimum=1, doc="height and width of a patch, odd")
    max_displacement: int = attribute(1, minimum=0, doc="greatest distance that is compared")
    stride1: int = attribute(1, minimum=1, doc="step between the positions of the first data")
    stride2: int = attribute(1, minimum=1, doc="step between the distances compared")
    pad_size: int = attribute(0, minimum=0, doc="zeros around both images")
    is_multiply: bool = attribute(True, doc="products, else absolute differences")

    def __post_init__(self) -> None:
        if self.kernel_size % 2 == 0:
            raise AttributeValueError(f"kernel_size is {self.kernel_size}; expected an odd number")

    def input_names(self) -> tuple[str, ...]:
        return ("data1", "data2")

    def stored_outputs(self) -> int:
        """MXNet has the padded images as hidden outputs."""
        return 3

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    @property
    def _radius(self) -> int:
        return self.max_displacement // self.stride2

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data2", inputs[1], inputs[0])
        data = self.expect("data1", data, (0, 0, 0, 0))
        # Positions whose patch or most distant partner would leave the padded image have no output.
        border = self.max_displacement + self.kernel_size // 2
        sizes = []
        for size in data[2:]:
            room = size + 2 * self.pad_size - 2 * border
            if size and room < 1:
                raise ShapeError(
                    f"data1 has shape {data}; kernel_size {self.kernel_size} and max_displacement "
                    f"{self.max_displacement} need more than {2 * border - 2 * self.pad_size} "
                    f"rows and columns with pad_size {self.pad_size}"
                )
            sizes.append(-(-room // self.stride1) if size else 0)
        channels = (2 * self._radius + 1) ** 2
        output = self.expect("output", outputs[0], (data[0], channels, *sizes))
        data = (output[0], *data[1:])
        return [data, data], [output]

    def _padded(self, run: Run, data: Array) -> Array:
        pad = self.pad_size
        if not pad:
            return data
        batch, channels, height, width = data.shape
        padded = run.scratch((batch, channels, height + 2 * pad, width + 2 * pad), data.dtype)
        padded.fill(0)
        padded[:, :, pad : pad + height, pad : pad + width] = data
        return padded

    def _patches(self, sizes: Shape) -> Iterator[tuple[int, _Slices, _Slices]]:
        """Yield for each displacement and element of a patch its channel, and the elements of the
        first and of the second padded image that all positions read."""
        steps = range(-self._radius, self._radius + 1)
        inside = range(self.kernel_size)
        for channel, (down, across) in enumerate(itertools.product(steps, steps)):
            for row, column in itertools.product(inside, inside):
                first = self._window(sizes, (row, column))
                shift = (row + down * self.stride2, column + across * self.stride2)
                yield channel, first, self._window(sizes, shift)

    def _window(self, sizes: Shape, shift: Shape) -> _Slices:
        rows, columns = (
            slice(start, start + (size - 1) * self.stride1 + 1, self.stride1)
            for size, start in zip(sizes, (self.max_displacement + s for s in shift), strict=True)
        )
        return slice(None), slice(None), rows, columns

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, out = run.xp, outputs[0]
        one, other = (self._padded(run, data) for data in inputs)
        shape = (*inputs[0].shape[:2], *out.shape[2:])
        term = run.scratch(shape, out.dtype)
        total = run.scratch((len(out), *out.shape[2:]), out.dtype)
        out.fill(0)
        for channel, first, second in self._patches(out.shape[2:]):
            if self.is_multiply:
                xp.multiply(one[first], other[second], out=term)
            else:
                xp.subtract(one[first], other[second], out=term)
                xp.absolute(term, out=term)
            xp.sum(term, axis=1, out=total)
            target = out[:, channel]
            target += total
        out /= self.kernel_size**2 * shape[1]

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad = run.xp, out_grads[0]
        images = [self._padded(run, data) for data in inputs]
        gradients = [
            None if target is None else run.scratch(image.shape, grad.dtype)
            for image, target in zip(images, in_grads, strict=True)
        ]
        for gradient in gradients:
            if gradient is not None:
                gradient.fill(0)
        term = run.scratch((*inputs[0].shape[:2], *grad.shape[2:]), grad.dtype)
        for channel, *windows in self._patches(grad.shape[2:]):
            for i, gradient in enumerate(gradients):
                if gradient is None:
                    continue
                if self.is_multiply:
                    xp.multiply(images[1 - i][windows[1 - i]], grad[:, channel, None], out=term)
                else:
                    # The derivative of |a - b|; where they are equal, that by a is 1, as in MXNet.
                    is_more = images[0][windows[0]] >= images[1][windows[1]]
                    sign = xp.where(is_more, 1 - 2 * i, 2 * i - 1)
                    xp.multiply(grad[:, channel, None], sign, out=term)
                target = gradient[windows[i]]
                target += term
        pad, count = self.pad_size, self.kernel_size**2 * inputs[0].shape[1]
        height, width = inputs[0].shape[2:]
        for gradient, target in zip(gradients, in_grads, strict=True):
            if target is not None and gradient is not None:
                inner = gradient[:, :, pad : pad + height, pad : pad + width]
                xp.divide(inner, count, out=target)
