"""Normalizations that only scale: L2 normalization and local response normalization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .summation import add_up

__all__ = ["LRN", "L2Normalization"]


@register("L2Normalization")
@implements(kinds.L2_NORMALIZATION)
class L2Normalization(Operator):
    """Divide by the Euclidean norm, ``sqrt(sum of squares + eps)``.

    The norm is computed for each sample (``instance``), over the channels at each position
    (``channel``) or over the positions of each channel (``spatial``).
    """

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    eps: float = attribute(1e-10, doc="added to the sum of squares")
    mode: str = attribute(
        "instance",
        choices=("instance", "channel", "spatial"),
        doc="what is normalized: each example, position or channel",
    )

    def output_names(self) -> tuple[str, ...]:
        return ("output", "norm")

    def visible_outputs(self) -> int:
        return 1

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        if self.mode != "instance" and len(data) < 3:
            raise ShapeError(f"data has shape {data}; mode {self.mode!r} needs 3 axes or more")
        axes = self._axes(len(data))
        return [data], [data, tuple(n for axis, n in enumerate(data) if axis not in axes)]

    def backward_reads(self) -> Reads:
        return Reads(outputs=(0, 1))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data = run.xp, inputs[0]
        square = run.scratch(data.shape, data.dtype)
        xp.multiply(data, data, out=square)
        length = outputs[1].reshape(self._kept_shape(data.shape))
        add_up(run, square, self._axes(data.ndim), length)
        length += self.eps
        xp.sqrt(length, out=length)
        xp.divide(data, length, out=outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad, out, data_grad = run.xp, out_grads[0], outputs[0], in_grads[0]
        # With y = x / n, dx = (dy - y Σ dy y) / n: the part of dy along x changes only the norm.
        kept = self._kept_shape(grad.shape)
        product, along = run.scratch(grad.shape, grad.dtype), run.scratch(kept, grad.dtype)
        xp.multiply(grad, out, out=product)
        add_up(run, product, self._axes(grad.ndim), along)
        xp.multiply(out, along, out=product)
        xp.subtract(grad, product, out=data_grad)
        data_grad /= outputs[1].reshape(kept)

    def _axes(self, ndim: int) -> tuple[int, ...]:
        if self.mode == "channel":
            return (1,)
        return tuple(range(1 if self.mode == "instance" else 2, ndim))

    def _kept_shape(self, data: Shape) -> Shape:
        axes = self._axes(len(data))
        return tuple(1 if axis in axes else n for axis, n in enumerate(data))


@register("LRN")
@implements(kinds.LOCAL_RESPONSE)
class LRN(Operator):
    """Local response normalization (Krizhevsky et al., 2012), over neighbouring channels:
    ``data · (knorm + alpha / nsize · sum of nsize squares) ^ -beta``.

    ``data`` is (batch, channels, ...); the sum is over the ``nsize`` channels around each one.
    """

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    alpha: float = attribute(1e-4, doc="factor of the mean square")
    beta: float = attribute(0.75, doc="exponent of the divisor")
    knorm: float = attribute(2.0, doc="added to the sum")
    nsize: int = attribute(minimum=1, doc="number of channels in a window")

    def __post_init__(self) -> None:
        if self.nsize % 2 == 0:
            raise AttributeValueError(f"nsize is {self.nsize}; expected an odd number")

    def output_names(self) -> tuple[str, ...]:
        return ("output", "tmp_norm")

    def visible_outputs(self) -> int:
        return 1

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is not None and len(data) < 2:
            raise ShapeError(f"data has shape {data}; expected (batch, channels, ...)")
        return [data], [data, data]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(1,))

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, (out, norm) = run.xp, inputs[0], outputs
        xp.multiply(data, data, out=out)
        self._sum_neighbours(run, out, norm)
        norm *= self.alpha / self.nsize
        norm += self.knorm
        xp.power(norm, -self.beta, out=out)
        out *= data

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad, data, norm, data_grad = run.xp, out_grads[0], inputs[0], outputs[1], in_grads[0]
        # With y = x n^-beta and n = knorm + alpha / nsize · Σ x²,
        # dx = dy n^-beta - 2 alpha beta / nsize · x Σ dy x n^(-beta - 1), over the same neighbors.
        power, spread = (run.scratch(grad.shape, grad.dtype) for _ in range(2))
        xp.power(norm, -self.beta - 1, out=power)
        power *= grad
        xp.multiply(power, data, out=spread)
        self._sum_neighbours(run, spread, data_grad)
        data_grad *= data
        data_grad *= -2 * self.alpha * self.beta / self.nsize
        power *= norm
        data_grad += power

    def _sum_neighbours(self, run: Run, source: Array, target: Array) -> None:
        run.xp.copyto(target, source)
        for here, there in self._shifts(source.shape[1]):
            for to, of in ((here, there), (there, here)):
                part = target[:, to]
                part += source[:, of]

    def _shifts(self, channels: int) -> Iterator[tuple[slice, slice]]:
        for distance in range(1, min(self.nsize // 2, channels - 1) + 1):
            yield slice(0, channels - distance), slice(distance, channels)
