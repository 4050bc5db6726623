"""Activation functions as operators of their own (``Activation``, ``LeakyReLU``)."""

from __future__ import annotations

from collections.abc import Sequence

from core.ops.attributes import attribute
from core.ops.operator import Operator, Reads, Run
from core.ops.registry import register
from core.types import Array

__all__ = ["Activation"]


@register("Activation")
class Activation(Operator):
    """Apply ``relu``, ``sigmoid``, ``tanh``, ``softrelu`` (log(1+e^x)) or ``softsign``."""

    act_type: str = attribute(choices=("relu", "sigmoid", "tanh", "softrelu", "softsign"))

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,)) if self.act_type == "softsign" else Reads(outputs=(0,))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return () if self.act_type == "softsign" else ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, x, y = run.xp, inputs[0], outputs[0]
        match self.act_type:
            case "relu":
                xp.maximum(x, 0, out=y)
            case "tanh":
                xp.tanh(x, out=y)
            case "sigmoid":
                xp.multiply(x, 0.5, out=y)
                xp.tanh(y, out=y)
                y *= 0.5
                y += 0.5
            case "softrelu":
                xp.logaddexp(x, 0, out=y)
            case _:
                xp.abs(x, out=y)
                y += 1
                xp.divide(x, y, out=y)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, dy, dx = run.xp, out_grads[0], in_grads[0]
        slope = run.scratch(dy.shape, dy.dtype)
        match self.act_type:
            case "relu":
                xp.greater(outputs[0], 0, out=slope)
            case "tanh":
                xp.multiply(outputs[0], outputs[0], out=slope)
                xp.subtract(1, slope, out=slope)
            case "sigmoid":
                xp.subtract(1, outputs[0], out=slope)
                slope *= outputs[0]
            case "softrelu":
                xp.negative(outputs[0], out=slope)
                xp.expm1(slope, out=slope)
                xp.negative(slope, out=slope)
            case _:
                xp.abs(inputs[0], out=slope)
                slope += 1
                slope *= slope
                xp.reciprocal(slope, out=slope)
        xp.multiply(dy, slope, out=dx)
