"""Mean and variance in one operator."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ShapeError
from ..types import Array, Shape, is_floating, normalize_axis
from .attributes import attribute
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .summation import average

__all__ = ["Moments"]


@register("moments")
class Moments(Operator):
    """The mean and the population variance of the data over ``axes``, as two outputs.

    Both lack these axes, or with ``keepdims`` have length 1 there.
    """

    axes: Shape | None = attribute(None, doc="axes to reduce; must be given")
    keepdims: bool = attribute(False, doc="whether to keep reduced axes, with size 1")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(0,))

    def _reduced(self, ndim: int) -> tuple[int, ...]:
        return tuple(normalize_axis(axis, ndim) for axis in self.axes or ())

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if not self.axes:
            raise ShapeError(f"axes is {self.axes}; name all axes to reduce everything")
        data = inputs[0]
        if data is None:
            return inputs, outputs
        reduced = self._reduced(len(data))
        if self.keepdims:
            shape = tuple(1 if axis in reduced else size for axis, size in enumerate(data))
        else:
            # As in MXNet 1.x, where an empty shape means unknown, a full reduction has shape (1,).
            shape = tuple(x for axis, x in enumerate(data) if axis not in reduced) or (1,)
        found: list[Shape | None] = []
        for name, output in zip(self.output_names(), outputs, strict=True):
            found.append(self.expect(name, output, shape))
        return inputs, found

    def _kept(self, shape: Shape) -> Shape:
        """Return the data's shape with reduced axes of size 1."""
        reduced = self._reduced(len(shape))
        return tuple(1 if axis in reduced else size for axis, size in enumerate(shape))

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data = inputs[0]
        axes, kept = self._reduced(data.ndim), self._kept(data.shape)
        mean, variance = (array.reshape(kept) for array in outputs)
        average(run, data, axes, mean)
        centered = run.scratch(data.shape, data.dtype)
        run.xp.subtract(data, mean, out=centered)
        centered *= centered
        average(run, centered, axes, variance)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data, data_grad = inputs[0], in_grads[0]
        assert data_grad is not None
        kept = self._kept(data.shape)
        count = data.size // out_grads[0].size
        mean_grad, variance_grad = (array.reshape(kept) for array in out_grads)
        if not is_floating(data.dtype):
            # As in MXNet, each of the two terms is truncated before they are added.
            steps = run.xp.subtract(data, outputs[0].reshape(kept), dtype="float64")
            steps *= variance_grad * 2
            steps = run.xp.trunc(steps / count) + run.xp.trunc(mean_grad / count)
            run.xp.copyto(data_grad, steps, casting="unsafe")
            return
        centered = run.scratch(data.shape, data.dtype)
        run.xp.subtract(data, outputs[0].reshape(kept), out=centered)
        centered *= variance_grad * (2 / count)
        centered += mean_grad / count
        run.xp.copyto(data_grad, centered)
