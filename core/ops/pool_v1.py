"""The first version of MXNet's pooling, found in old files."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from ..errors import ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .pool import Pooling
from .precision import wide_backward, wide_forward
from .registry import make_operator, register
from .window import check_window

__all__ = ["PoolingV1"]


@register("Pooling_v1")
class PoolingV1(Operator):
    """The maximum, sum or mean of windows of images (batch, channels, height, width).

    Unlike ``Pooling``, the maximum includes the zeros of the padding, means are divided by the size
    of the whole window even if it ends outside, and every element equal to the maximum gets the
    whole gradient.
    """

    kernel: Shape = attribute((), minimum=1, doc="size of the window along each spatial axis")
    pool_type: str = attribute(
        "max", choices=("max", "avg", "sum"), doc="the function applied to each window"
    )
    global_pool: bool = attribute(False, doc="whether one window covers all of the data")
    pooling_convention: str = attribute(
        "valid",
        choices=("valid", "full"),
        doc="rounding of the output size: down (valid) or up (full)",
    )
    stride: Shape = attribute(
        (), minimum=1, doc="steps of the window along each axis; 1 by default"
    )
    pad: Shape = attribute(
        (), minimum=0, doc="elements of padding on both sides of each axis; 0 by default"
    )

    def __post_init__(self) -> None:
        if not self.global_pool:
            check_window(self.kernel, stride=self.stride, pad=self.pad)

    @functools.cached_property
    def _pooling(self) -> Pooling:
        """The equivalent pooling of the padded image, except for the mean's divisor."""
        attributes = {
            "kernel": self.kernel,
            "pool_type": "max" if self.pool_type == "max" else "sum",
            "global_pool": self.global_pool,
            "pooling_convention": self.pooling_convention,
            "stride": self.stride,
        }
        pooling = make_operator("Pooling", "pooling", attributes)
        assert isinstance(pooling, Pooling)
        return pooling

    def _pads(self) -> Shape:
        return (0, 0) if self.global_pool or not self.pad else self.pad

    def _divisor(self, data: Shape) -> int:
        if self.pool_type != "avg":
            return 1
        height, width = data[2:] if self.global_pool else self.kernel
        return height * width

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(0,)) if self.pool_type == "max" else Reads()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) != 4 or not (self.global_pool or len(self.kernel) == 2):
            raise ShapeError(
                f"data has shape {data} and kernel {self.kernel}; expected (batch, channels, "
                f"height, width) and a kernel of two axes"
            )
        pads = self._pads()
        padded = tuple(n + 2 * pad if n else 0 for n, pad in zip(data[2:], pads, strict=True))
        _, outputs = self._pooling.infer_shape([(*data[:2], *padded)], outputs)
        return [data], outputs

    def _padded(self, run: Run, data: Array) -> Array:
        top, left = self._pads()
        if not top and not left:
            return data
        batch, channels, height, width = data.shape
        padded = run.scratch((batch, channels, height + 2 * top, width + 2 * left), data.dtype)
        padded.fill(0)
        padded[:, :, top : top + height, left : left + width] = data
        return padded

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._pooling.forward(run, [self._padded(run, inputs[0])], outputs)
        if self.pool_type == "avg":
            out = outputs[0]
            out /= self._divisor(inputs[0].shape)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad, data_grad = run.xp, out_grads[0], in_grads[0]
        assert data_grad is not None
        top, left = self._pads()
        batch, channels, height, width = data_grad.shape
        sizes = (batch, channels, height + 2 * top, width + 2 * left)
        padded = run.scratch(sizes, grad.dtype)
        padded.fill(0)
        source = self._padded(run, inputs[0]) if self.pool_type == "max" else None
        for outer, inner in self._positions(sizes):
            share = grad[outer]
            if source is not None:
                share = share * (source[inner] == outputs[0][outer])
            target = padded[inner]
            target += share
        inside = padded[:, :, top : top + height, left : left + width]
        xp.divide(inside, self._divisor(data_grad.shape), out=data_grad)

    def _positions(self, sizes: Shape) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Yield (output slices, image slices) for each position of the window."""
        rows, columns = self._pooling.intervals(sizes)
        every = (slice(None), slice(None))
        for (outer_row, row), (outer_column, column) in itertools.product(
            rows.slices(), columns.slices()
        ):
            yield (
                (*every, outer_row[-1], outer_column[-1]),
                (*every, row[-1], column[-1]),
            )
