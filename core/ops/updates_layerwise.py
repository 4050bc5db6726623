"""Steps whose length depends on the norm of each weight: LAMB and LARS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register
from .update_rules import lamb_direction, lars_rate, trust_ratio
from .updates import (
    CLIP,
    DECAY,
    RATE,
    RESCALE,
    Update,
    step_of,
)

__all__ = [
    "LambPhase1",
    "LambPhase2",
    "MixedLambPhase1",
    "MixedLambPhase2",
    "MultiLars",
    "write_lamb_direction",
]

_FLOAT32 = np.dtype("float32")


def write_lamb_direction(
    run: Run, settings: Any, weight: Array, grad: Array, mean: Array, var: Array, out: Array
) -> None:
    """Write Adam's direction with weight decay; ``settings`` is the operator of the first phase."""
    step = step_of(run, weight, grad, out, settings, wd=0.0)
    direction = lamb_direction(
        step,
        (mean, var),
        beta1=settings.beta1,
        beta2=settings.beta2,
        epsilon=settings.epsilon,
        wd=settings.wd,
        count=settings.t if settings.bias_correction else None,
    )
    run.xp.copyto(out, direction)


@register("lamb_update_phase1")
class LambPhase1(Update):
    """The direction of a step of LAMB (You et al., arXiv:1904.00962), before its scaling."""

    states: ClassVar[tuple[str, ...]] = ("mean", "var")

    beta1: float = attribute(0.9, doc="decay rate of the mean of gradients")
    beta2: float = attribute(0.999, doc="decay rate of the mean of their squares")
    epsilon: float = attribute(1e-6, doc="added to the square root of that mean")
    t: int = attribute(doc="number of this step, from 1")
    bias_correction: bool = attribute(
        True, doc="whether to correct the bias of the means towards their initial zeros"
    )
    wd: float = attribute(doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mean, var = inputs
        write_lamb_direction(run, self, weight, grad, mean, var, outputs[0])


@register("mp_lamb_update_phase1")
class MixedLambPhase1(LambPhase1):
    """``lamb_update_phase1`` of a weight's float32 copy; the direction is float32, too."""

    def input_names(self) -> tuple[str, ...]:
        return ("weight", "grad", "mean", "var", "weight32")

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        # The output is float32, unlike the weight.
        return ()

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        half = self.expect_dtype("grad", inputs[1], inputs[0])
        return [half, half, *[_FLOAT32] * 3], [self.expect_dtype("output", outputs[0], _FLOAT32)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _, grad, mean, var, weight32 = inputs
        write_lamb_direction(run, self, weight32, grad, mean, var, outputs[0])


@register("lamb_update_phase2")
class LambPhase2(Update):
    """LAMB's step ``weight - lr * r1 / r2 * g``, with the norms r1 of the weight and r2 of g.

    If either norm is zero, their ratio is taken as 1.
    """

    lr: float = attribute(doc=RATE)
    lower_bound: float = attribute(-1.0, doc="lower limit of r1; negative for none")
    upper_bound: float = attribute(-1.0, doc="upper limit of r1; negative for none")

    def input_names(self) -> tuple[str, ...]:
        return ("weight", "g", "r1", "r2")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        names = self.input_names()
        common = outputs[0]
        for place in (0, 1, *range(4, len(names))):
            common = self.expect(names[place], inputs[place], common)
        norms = [self.expect(names[place], inputs[place], (1,)) for place in (2, 3)]
        return [common, common, *norms, *[common] * (len(names) - 4)], [common]

    def scaled(self, run: Run, direction: Array, r1: Array, r2: Array) -> Array:
        """Return the step in scratch memory."""
        low = self.lower_bound if self.lower_bound >= 0 else None
        high = self.upper_bound if self.upper_bound >= 0 else None
        rate = trust_ratio(r1, r2, low, high) * self.lr
        step = run.scratch(direction.shape, direction.dtype)
        run.xp.multiply(direction, rate.astype(direction.dtype), out=step)
        return step

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, direction, r1, r2 = inputs
        run.xp.subtract(weight, self.scaled(run, direction, r1, r2), out=outputs[0])


@register("mp_lamb_update_phase2")
class MixedLambPhase2(LambPhase2):
    """``lamb_update_phase2`` of a weight's float32 copy, which the output rounds.

    As in MXNet, the copy itself is not updated; the caller must do so before the next step.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("weight", "g", "r1", "r2", "weight32")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        half = self.expect_dtype("output", outputs[0], inputs[0])
        return [half, *[_FLOAT32] * 4], [half]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _, direction, r1, r2, weight32 = inputs
        new_weight = weight32 - self.scaled(run, direction, r1, r2)
        run.xp.copyto(outputs[0], new_weight, casting="unsafe")


@register("multi_lars")
class MultiLars(Operator):
    """LARS (arXiv:1708.03888): learning rates scaled by the norms of weights and gradients.

    ``lr * eta * |w| / (rescale_grad * |g| + wd * |w| + eps)``; if a norm is zero, ``lr``.
    """

    eta: float = attribute(doc="trust coefficient")
    eps: float = attribute(doc="added to the denominator")
    rescale_grad: float = attribute(1.0, doc=RESCALE)

    def input_names(self) -> tuple[str, ...]:
        return ("lrs", "weights_sum_sq", "grads_sum_sq", "wds")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp = run.xp
        rates, weights, grads, decays = inputs
        norms = xp.sqrt(weights), xp.sqrt(grads) * self.rescale_grad
        scaled = lars_rate(rates, *norms, decays, self.eta, self.eps)
        xp.copyto(outputs[0], xp.where((weights > 0) & (grads > 0), scaled, rates))
