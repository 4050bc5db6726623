"""AdamW: Adam with decoupled weight decay, and with the gradient's scale as an array."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Run
from .registry import register
from .update_rules import Step, adam_direction, prepare
from .updates import CLIP, DECAY, RATE, Update, limit_of

__all__ = ["AdamwUpdate", "MixedAdamwUpdate"]

_FLOAT32 = np.dtype("float32")


@register("_adamw_update")
class AdamwUpdate(Update):
    """``weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight)`` (arXiv:1711.05101).

    The gradient's factor ``rescale_grad`` is an array of one number. If it is 0, infinite or NaN,
    as happens with dynamic loss scaling, the step is skipped.
    """

    lr: float = attribute(doc=RATE)
    beta1: float = attribute(0.9, doc="decay rate of the mean of gradients")
    beta2: float = attribute(0.999, doc="decay rate of the mean of their squares")
    epsilon: float = attribute(1e-8, doc="added to the square root of that mean")
    wd: float = attribute(0.0, doc=DECAY)
    eta: float = attribute(doc="factor of the whole step")
    clip_gradient: float = attribute(-1.0, doc=CLIP)

    def input_names(self) -> tuple[str, ...]:
        return ("weight", "grad", "mean", "var", "rescale_grad")

    def auxiliary_names(self) -> tuple[str, ...]:
        return self.input_names()[2:-1]

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = outputs[0]
        for name, shape in zip(self.input_names()[:-1], inputs[:-1], strict=True):
            common = self.expect(name, shape, common)
        scale = self.expect("rescale_grad", inputs[-1], (1,))
        return [*[common] * (len(inputs) - 1), scale], [common]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = outputs[0]
        for name, dtype in zip(self.input_names()[:-1], inputs[:-1], strict=True):
            common = self.expect_dtype(name, dtype, common)
        scale = self.expect_dtype("rescale_grad", inputs[-1], _FLOAT32)
        return [*[common] * (len(inputs) - 1), scale], [common]

    def step(
        self,
        run: Run,
        weight: Array,
        grad: Array,
        mean: Array,
        var: Array,
        factor: float,
        out: Array,
    ) -> None:
        """Update the states and write the new weight; ``out`` may be the weight."""
        xp = run.xp
        if factor == 0 or not math.isfinite(factor):
            xp.copyto(out, weight)
            return
        gradient, other = (run.scratch(weight.shape, weight.dtype) for _ in range(2))
        step = Step(xp, weight, gradient, other, out)
        prepare(step, grad, factor, limit_of(self.clip_gradient), 0.0)
        direction = adam_direction(
            step, (mean, var), beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon
        )
        direction *= self.lr
        direction += self.wd * weight
        direction *= self.eta
        xp.subtract(weight, direction, out=out)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mean, var, scale = inputs
        self.step(run, weight, grad, mean, var, float(scale[0]), outputs[0])


@register("_mp_adamw_update")
class MixedAdamwUpdate(AdamwUpdate):
    """``_adamw_update`` of a weight's float32 copy, which the output rounds."""

    def input_names(self) -> tuple[str, ...]:
        return ("weight", "grad", "mean", "var", "weight32", "rescale_grad")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        half = self.expect_dtype("grad", inputs[1], inputs[0])
        half = self.expect_dtype("output", outputs[0], half)
        states = zip(self.input_names()[2:], inputs[2:], strict=True)
        wide = [self.expect_dtype(name, dtype, _FLOAT32) for name, dtype in states]
        return [half, half, *wide], [half]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _, grad, mean, var, weight32, scale = inputs
        self.step(run, weight32, grad, mean, var, float(scale[0]), weight32)
        run.xp.copyto(outputs[0], weight32, casting="unsafe")
