"""Running sums."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Array, DType, Shape, normalize_axis, shape_size
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["CumulativeSum"]


@register("_np_cumsum", "cumsum")
class CumulativeSum(Operator):
    """The cumulative sum along an axis, of data's shape, or of the flattened data, a vector."""

    axis: int | None = attribute(None, doc="the axis; None to flatten the data")
    dtype: DType | None = attribute(None, doc="dtype of the sums; None for that of the data")

    def input_names(self) -> tuple[str, ...]:
        return ("a",)

    def backward_reads(self) -> Reads:
        return Reads()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if self.axis is None:
            flat = None if data is None else (shape_size(data),)
            return inputs, [self.expect("output", outputs[0], flat)]
        common = self.expect("a", data, outputs[0])
        if common is not None:
            normalize_axis(self.axis, len(common))
        return [common], [common]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        if self.dtype is None:
            common = self.expect_dtype("a", inputs[0], outputs[0])
            return [common], [common]
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype)]

    def _view(self, array: Array) -> tuple[Array, int]:
        """Return the array and the axis to sum along."""
        return (array.reshape(-1), 0) if self.axis is None else (array, self.axis)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, axis = self._view(inputs[0])
        outputs[0][...] = run.xp.cumsum(data, axis=axis, dtype=outputs[0].dtype)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data_grad = in_grads[0]
        assert data_grad is not None
        grad, axis = self._view(out_grads[0])
        sums = run.xp.cumsum(run.xp.flip(grad, axis), axis=axis, dtype=data_grad.dtype)
        data_grad[...] = run.xp.flip(sums, axis).reshape(data_grad.shape)
