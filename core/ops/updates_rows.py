"""AdaGrad, which is often used with gradients of few rows: rows without gradient do not change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..types import Array, Shape
from .attributes import attribute
from .operator import Run
from .registry import register
from .update_rules import adagrad, group_adagrad
from .updates import CLIP, RATE, RESCALE, Update, step_of

__all__ = ["AdagradUpdate", "GroupAdagradUpdate"]


@register("_sparse_adagrad_update")
class AdagradUpdate(Update):
    """``weight - lr * g / sqrt(history + epsilon)`` (Duchi et al., JMLR 12, 2121).

    The gradient g is ``clip(rescale_grad * grad)``, and ``history + g^2`` is the new history.
    """

    states: ClassVar[tuple[str, ...]] = ("history",)

    lr: float = attribute(doc=RATE)
    epsilon: float = attribute(1e-7, doc="added under the square root")
    wd: float = attribute(
        0.0, minimum=0.0, maximum=0.0, doc="must be 0: weight decay is not supported"
    )
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, history = inputs
        step = step_of(run, weight, grad, outputs[0], self)
        adagrad(step, (history,), lr=self.lr, epsilon=self.epsilon)


@register("_contrib_group_adagrad_update")
class GroupAdagradUpdate(Update):
    """AdaGrad with one history for each row: the mean of the squares along it.

    The weight is (rows, ...), the history (rows, 1).
    """

    states: ClassVar[tuple[str, ...]] = ("history",)
    wd: ClassVar[float] = 0.0

    lr: float = attribute(doc=RATE)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    epsilon: float = attribute(1e-5, doc="added under the square root")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        weight = self.expect("grad", inputs[1], self.expect("weight", inputs[0], outputs[0]))
        if not weight:
            return inputs, outputs
        history = self.expect("history", inputs[2], (weight[0], *(1,) * (len(weight) - 1)))
        return [weight, weight, history], [weight]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, history = inputs
        step = step_of(run, weight, grad, outputs[0], self)
        group_adagrad(step, (history,), lr=self.lr, epsilon=self.epsilon)
