"""A penalty on units that are active too often, for sparse autoencoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..errors import ShapeError
from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register
from .summation import average

__all__ = ["IdentityAttachKLSparseReg"]


@register("IdentityAttachKLSparseReg")
class IdentityAttachKLSparseReg(Operator):
    """Return the data (batch, units), and add the gradient of a penalty to its gradient.

    The penalty is the Kullback-Leibler divergence of each unit's mean activation, a number between
    0 and 1, from ``sparseness_target``. ``backward`` updates the running mean in ``moving_avg``
    (units,): ``moving = momentum · moving + (1 - momentum) · batch``.
    """

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    updates_backwards: ClassVar[bool] = True

    # As in MXNet, the second positional argument is an attribute, not the mean.
    all_inputs: ClassVar[tuple[str, ...]] = ("data",)

    sparseness_target: float = attribute(
        0.1, minimum=0.0, maximum=1.0, doc="target of the mean activation"
    )
    penalty: float = attribute(0.001, doc="factor of the penalty")
    momentum: float = attribute(0.9, minimum=0.0, maximum=1.0, doc="momentum of the moving mean")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "moving_avg")

    def auxiliary_names(self) -> tuple[str, ...]:
        return ("moving_avg",)

    def variable_initializers(self) -> Mapping[str, str]:
        return {"moving_avg": '["zero", {}]'}

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        if len(data) != 2:
            raise ShapeError(f"data has shape {data}; expected (batch, units): flatten it first")
        return [data, self.expect("moving_avg", inputs[1], (data[1],))], [data]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = self.expect_dtype("data", inputs[0], outputs[0])
        return [data, self.expect_dtype("moving_avg", inputs[1], data)], [data]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if outputs[0] is not inputs[0]:
            run.xp.copyto(outputs[0], inputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, (data, moving) = run.xp, inputs
        batch = run.scratch(moving.shape, moving.dtype)
        average(run, data, 0, batch)
        batch *= 1 - self.momentum
        moving *= self.momentum
        moving += batch
        if in_grads[0] is None:
            return
        active = run.scratch(moving.shape, moving.dtype)
        # The derivative of the divergence, (1 - t) / (1 - m) - t / m, by the mean m. As in MXNet,
        # every example gets all of it, not its share of the batch.
        xp.divide(self.sparseness_target, moving, out=active)
        xp.subtract(1, moving, out=batch)
        xp.divide(1 - self.sparseness_target, batch, out=batch)
        batch -= active
        batch *= self.penalty
        xp.add(out_grads[0], batch, out=in_grads[0])
