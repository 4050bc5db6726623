"""Optimizer steps: from a weight, its gradient and states to the new weight.

States are updated in place. The output is the new weight; pass ``out=weight`` to overwrite the old
one. Scripts call these operators through ``mx.nd``; the formulas are in ``update_rules.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..types import Array
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register
from .update_rules import (
    Step,
    adam,
    ftml,
    ftrl,
    move_weight,
    nag,
    prepare,
    rmsprop,
    rmsprop_centered,
    sign_step,
    signum,
)

__all__ = [
    "AdamUpdate",
    "FtmlUpdate",
    "FtrlUpdate",
    "NagMomUpdate",
    "RmspropAlexUpdate",
    "RmspropUpdate",
    "SgdMomUpdate",
    "SgdUpdate",
    "SignsgdUpdate",
    "SignumUpdate",
    "Update",
    "limit_of",
    "step_of",
]

CLIP = "largest magnitude of the rescaled gradient; negative for no limit"
DECAY = "weight decay"
LAZY = "leave rows without gradient unchanged; no effect on dense arrays, as they all are here"
RATE = "learning rate"
RESCALE = "factor of the gradient"


def limit_of(number: float) -> float | None:
    """Return the limit given by an attribute; None if it is negative."""
    return number if number >= 0 else None


def step_of(
    run: Run,
    weight: Array,
    grad: Array,
    out: Array,
    settings: Any,
    *,
    wd: float | None = None,
    clip: float | None = None,
    decay_before_clip: bool = False,
) -> Step:
    """Return the step of a weight with its gradient prepared, in scratch memory of the weight's
    dtype.

    Args:
        run: the environment of the operator.
        grad: the gradient, possibly in half precision.
        out: array for the new weight.
        settings: the operator, which has ``rescale_grad``, and ``wd`` and ``clip_gradient`` as
            defaults.
        wd: the weight decay.
        clip: largest magnitude; negative for no limit.
        decay_before_clip: clip the sum of gradient and decay instead.
    """
    gradient, other = (run.scratch(weight.shape, weight.dtype) for _ in range(2))
    step = Step(run.xp, weight, gradient, other, out)
    prepare(
        step,
        grad,
        settings.rescale_grad,
        limit_of(settings.clip_gradient if clip is None else clip),
        settings.wd if wd is None else wd,
        decay_before_clip=decay_before_clip,
    )
    return step


class Update(Operator):
    """Base: inputs ``weight``, ``grad`` and the states, one output; no gradients."""

    states: ClassVar[tuple[str, ...]] = ()

    def input_names(self) -> tuple[str, ...]:
        return ("weight", "grad", *self.states)

    def auxiliary_names(self) -> tuple[str, ...]:
        return self.states

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)


@register("sgd_update", "_sparse_sgd_update")
class SgdUpdate(Update):
    """``weight - lr * (clip(rescale_grad * grad) + wd * weight)``."""

    lr: float = attribute(doc=RATE)
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    lazy_update: bool = attribute(True, doc=LAZY)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad = inputs
        move_weight(step_of(run, weight, grad, outputs[0], self), (), lr=self.lr)


@register("sgd_mom_update", "_sparse_sgd_mom_update")
class SgdMomUpdate(Update):
    """``mom = momentum * mom - lr * g``, ``weight + mom``, with the gradient g of
    ``sgd_update``."""

    states: ClassVar[tuple[str, ...]] = ("mom",)

    lr: float = attribute(doc=RATE)
    momentum: float = attribute(0.0, doc="factor by which earlier steps decay")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    lazy_update: bool = attribute(True, doc=LAZY)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mom = inputs
        step = step_of(run, weight, grad, outputs[0], self)
        move_weight(step, (mom,), lr=self.lr, momentum=self.momentum)


@register("nag_mom_update")
class NagMomUpdate(Update):
    """Nesterov's momentum: ``weight + momentum * (momentum * mom - lr * g) - lr * g``.

    As in MXNet, the weight decay in ``mom = momentum * mom - lr * g`` reads the weight after it was
    written: the new weight if the output overwrites it.
    """

    states: ClassVar[tuple[str, ...]] = ("mom",)

    lr: float = attribute(doc=RATE)
    momentum: float = attribute(0.0, doc="factor by which earlier steps decay")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mom = inputs
        step = step_of(run, weight, grad, outputs[0], self)
        late_wd = self.wd if outputs[0] is weight else 0.0
        nag(step, (mom,), lr=self.lr, momentum=self.momentum, late_wd=late_wd)


@register("signsgd_update")
class SignsgdUpdate(Update):
    """``(1 - lr * wd) * weight - lr * sign(grad)`` (Bernstein et al., arXiv:1802.04434)."""

    lr: float = attribute(doc=RATE)
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(
        1.0, doc="positive factor of the gradient; does not change its sign"
    )
    clip_gradient: float = attribute(-1.0, doc="limit of the magnitude; does not change the sign")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad = inputs
        other = run.scratch(weight.shape, weight.dtype)
        step = Step(run.xp, weight, grad, other, outputs[0])
        sign_step(step, grad, -self.lr, 1 - self.lr * self.wd)


@register("signum_update")
class SignumUpdate(Update):
    """``(1 - lr * wd_lh) * weight + lr * sign(mom)`` (Bernstein et al., arXiv:1802.04434).

    Here ``mom = momentum * mom - (1 - momentum) * g``, with the gradient g of ``sgd_update``.
    """

    states: ClassVar[tuple[str, ...]] = ("mom",)

    lr: float = attribute(doc=RATE)
    momentum: float = attribute(0.0, doc="factor by which earlier gradients decay")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    wd_lh: float = attribute(0.0, doc="decoupled weight decay (arXiv:1711.05101)")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mom = inputs
        step = step_of(run, weight, grad, outputs[0], self)
        signum(step, (mom,), lr=self.lr, momentum=self.momentum, wd_lh=self.wd_lh)


@register("adam_update", "_sparse_adam_update")
class AdamUpdate(Update):
    """Adam: ``weight - lr * mean / (sqrt(var) + epsilon)`` (Kingma and Ba, arXiv:1412.6980).

    ``mean`` and ``var`` are running means of g and g², with g as ``clip(rescale_grad * grad + wd *
    weight)``. The caller includes the bias correction in ``lr``.
    """

    states: ClassVar[tuple[str, ...]] = ("mean", "var")

    lr: float = attribute(doc=RATE)
    beta1: float = attribute(0.9, doc="decay rate of the mean of gradients")
    beta2: float = attribute(0.999, doc="decay rate of the mean of their squares")
    epsilon: float = attribute(1e-8, doc="added to the square root of that mean")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    lazy_update: bool = attribute(True, doc=LAZY)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mean, var = inputs
        step = step_of(run, weight, grad, outputs[0], self, decay_before_clip=True)
        rates = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        adam(step, (mean, var), lr=self.lr, **rates)


@register("rmsprop_update")
class RmspropUpdate(Update):
    """``n = gamma1 * n + (1 - gamma1) * g²``, ``weight - lr * g / sqrt(n + epsilon)``.

    Tieleman and Hinton, Coursera lecture 6.5 (2012).
    """

    states: ClassVar[tuple[str, ...]] = ("n",)

    lr: float = attribute(doc=RATE)
    gamma1: float = attribute(0.95, doc="decay rate of the mean of squared gradients")
    epsilon: float = attribute(1e-8, doc="added to that")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    clip_weights: float = attribute(
        -1.0, doc="largest magnitude of a weight; negative for no limit"
    )

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, n = inputs
        step = step_of(run, weight, grad, outputs[0], self, decay_before_clip=True)
        rmsprop(
            step,
            (n,),
            lr=self.lr,
            gamma1=self.gamma1,
            epsilon=self.epsilon,
            clip=limit_of(self.clip_weights),
        )


@register("rmspropalex_update")
class RmspropAlexUpdate(Update):
    """RMSProp of centered gradients with a momentum ``delta`` (Graves, arXiv:1308.0850, 38-45)."""

    states: ClassVar[tuple[str, ...]] = ("n", "g", "delta")

    lr: float = attribute(doc=RATE)
    gamma1: float = attribute(0.95, doc="decay rate of the means of gradients and of their squares")
    gamma2: float = attribute(0.9, doc="factor by which earlier steps decay")
    epsilon: float = attribute(1e-8, doc="added to the variance")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    clip_weights: float = attribute(
        -1.0, doc="largest magnitude of a weight; negative for no limit"
    )

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, n, g, delta = inputs
        step = step_of(run, weight, grad, outputs[0], self, decay_before_clip=True)
        rmsprop_centered(
            step,
            (n, g, delta),
            lr=self.lr,
            gamma1=self.gamma1,
            gamma2=self.gamma2,
            epsilon=self.epsilon,
            clip=limit_of(self.clip_weights),
        )


@register("ftrl_update", "_sparse_ftrl_update")
class FtrlUpdate(Update):
    """Follow the regularized leader (McMahan et al., KDD 2013).

    The formulas are at ``core.ops.update_rules.ftrl``.
    """

    states: ClassVar[tuple[str, ...]] = ("z", "n")

    lr: float = attribute(doc=RATE)
    lamda1: float = attribute(0.01, doc="L1 regularization")
    beta: float = attribute(1.0, doc="added to the root of the sum of squared gradients")
    wd: float = attribute(0.0, doc="L2 regularization")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, z, n = inputs
        step = step_of(run, weight, grad, outputs[0], self, wd=0.0)
        ftrl(step, (z, n), lr=self.lr, lamda1=self.lamda1, beta=self.beta, wd=self.wd)


@register("ftml_update")
class FtmlUpdate(Update):
    """Follow the moving leader (Zheng and Kwok, ICML 2017).

    The formulas are at ``core.ops.update_rules.ftml``.
    """

    states: ClassVar[tuple[str, ...]] = ("d", "v", "z")

    lr: float = attribute(doc=RATE)
    beta1: float = attribute(0.6, doc="factor by which earlier steps decay")
    beta2: float = attribute(0.999, doc="decay rate of the mean of squared gradients")
    epsilon: float = attribute(1e-8, doc="added to the square root of that mean")
    t: int = attribute(doc="number of this step, from 1")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_grad: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, d, v, z = inputs
        step = step_of(
            run, weight, grad, outputs[0], self, clip=self.clip_grad, decay_before_clip=True
        )
        rates = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        ftml(step, (d, v, z), lr=self.lr, count=self.t, **rates)
