"""Steps of optimizers: from a weight, its gradient and states to the new weight.

The states are updated in place. The new weight is the output; pass ``out=weight`` to write it over
the old one. Scripts call these with ``mx.nd``; ``core.optimizer`` has its own faster form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..types import Array
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

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
    "as_single",
    "move_average",
    "prepare_gradient",
]

CLIP = "largest magnitude of the rescaled gradient; negative: any"
DECAY = "weight decay"
LAZY = "rows without gradient stay as they are; says nothing of dense arrays, and all are dense"
RATE = "learning rate"
RESCALE = "factor of the gradient"


def prepare_gradient(
    run: Run,
    weight: Array,
    grad: Array,
    settings: Any,
    *,
    wd: float | None = None,
    clip: float | None = None,
    decay_before_clip: bool = False,
) -> Array:
    """Return ``clip(rescale_grad * grad) + wd * weight`` in scratch memory of the weight's dtype.

    Args:
        run: the environment of the operator.
        weight: of any shape.
        grad: of the weight's shape, perhaps in half precision.
        settings: the operator with ``rescale_grad``, and ``wd`` and ``clip_gradient`` if not given.
        wd: the weight decay.
        clip: largest magnitude; negative: any.
        decay_before_clip: clip the sum instead.
    """
    xp = run.xp
    limit = settings.clip_gradient if clip is None else clip
    decay = settings.wd if wd is None else wd
    gradient = run.scratch(weight.shape, weight.dtype)
    xp.multiply(grad, settings.rescale_grad, out=gradient, dtype=weight.dtype)
    if limit >= 0 and not decay_before_clip:
        xp.clip(gradient, -limit, limit, out=gradient)
    if decay:
        gradient += decay * weight
    if limit >= 0 and decay_before_clip:
        xp.clip(gradient, -limit, limit, out=gradient)
    return gradient


def as_single(value: float) -> float:
    """Return what float32 makes of a number, as MXNet's operators take it.

    Of one close to 1 that counts once it is subtracted from 1.
    """
    return float(np.float32(value))


def move_average(average: Array, values: Array, keep: float) -> None:
    """Move an average in place: ``keep * average + (1 - keep) * values``."""
    keep = as_single(keep)
    average *= keep
    average += (1 - keep) * values


class Update(Operator):
    """Base: inputs ``weight``, ``grad`` and the states, one output; nothing has a gradient."""

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
        step = prepare_gradient(run, weight, grad, self)
        step *= self.lr
        run.xp.subtract(weight, step, out=outputs[0])


@register("sgd_mom_update", "_sparse_sgd_mom_update")
class SgdMomUpdate(Update):
    """``mom = momentum * mom - lr * g``, ``weight + mom``, of the gradient g of ``sgd_update``."""

    states: ClassVar[tuple[str, ...]] = ("mom",)

    lr: float = attribute(doc=RATE)
    momentum: float = attribute(0.0, doc="decay of earlier steps")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    lazy_update: bool = attribute(True, doc=LAZY)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mom = inputs
        step = prepare_gradient(run, weight, grad, self)
        step *= self.lr
        mom *= self.momentum
        mom -= step
        run.xp.add(weight, mom, out=outputs[0])


@register("nag_mom_update")
class NagMomUpdate(Update):
    """Nesterov's momentum: ``weight + momentum * (momentum * mom - lr * g) - lr * g``.

    As in MXNet, ``mom = momentum * mom - lr * g`` decays the weight as it is then: the new one
    where the output is written over the old one.
    """

    states: ClassVar[tuple[str, ...]] = ("mom",)

    lr: float = attribute(doc=RATE)
    momentum: float = attribute(0.0, doc="decay of earlier steps")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mom = inputs
        step = prepare_gradient(run, weight, grad, self)
        step *= self.lr
        mom *= self.momentum
        change = self.momentum * (mom - step) - step
        if outputs[0] is weight:
            step += (self.lr * self.wd) * change
        run.xp.add(weight, change, out=outputs[0])
        mom -= step


@register("signsgd_update")
class SignsgdUpdate(Update):
    """``(1 - lr * wd) * weight - lr * sign(grad)`` (Bernstein et al., arXiv:1802.04434)."""

    lr: float = attribute(doc=RATE)
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc="positive factor of the gradient: its sign stays")
    clip_gradient: float = attribute(-1.0, doc="magnitude to clip to: the sign stays")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad = inputs
        step = run.scratch(weight.shape, weight.dtype)
        run.xp.sign(grad, out=step)
        step *= self.lr
        run.xp.multiply(weight, 1 - self.lr * self.wd, out=outputs[0])
        outputs[0][...] -= step


@register("signum_update")
class SignumUpdate(Update):
    """``(1 - lr * wd_lh) * weight + lr * sign(mom)`` (Bernstein et al., arXiv:1802.04434).

    Here ``mom = momentum * mom - (1 - momentum) * g``, of the gradient g of ``sgd_update``.
    """

    states: ClassVar[tuple[str, ...]] = ("mom",)

    lr: float = attribute(doc=RATE)
    momentum: float = attribute(0.0, doc="decay of earlier gradients")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    wd_lh: float = attribute(0.0, doc="decay beside the gradient (arXiv:1711.05101)")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mom = inputs
        gradient = prepare_gradient(run, weight, grad, self)
        gradient *= 1 - as_single(self.momentum)
        mom *= self.momentum
        mom -= gradient
        run.xp.sign(mom, out=gradient)
        gradient *= self.lr
        run.xp.multiply(weight, 1 - self.lr * self.wd_lh, out=outputs[0])
        outputs[0][...] += gradient


@register("adam_update", "_sparse_adam_update")
class AdamUpdate(Update):
    """Adam (Kingma and Ba, arXiv:1412.6980); its bias correction is the caller's, in ``lr``."""

    states: ClassVar[tuple[str, ...]] = ("mean", "var")

    lr: float = attribute(doc=RATE)
    beta1: float = attribute(0.9, doc="decay of the mean of gradients")
    beta2: float = attribute(0.999, doc="decay of the mean of their squares")
    epsilon: float = attribute(1e-8, doc="added to the root of that")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    lazy_update: bool = attribute(True, doc=LAZY)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, mean, var = inputs
        gradient = prepare_gradient(run, weight, grad, self, decay_before_clip=True)
        move_average(mean, gradient, self.beta1)
        gradient *= gradient
        move_average(var, gradient, self.beta2)
        run.xp.sqrt(var, out=gradient)
        gradient += self.epsilon
        run.xp.divide(mean, gradient, out=gradient)
        gradient *= self.lr
        run.xp.subtract(weight, gradient, out=outputs[0])


class _Rmsprop(Update):
    """Base of both forms of RMSProp."""

    lr: float
    gamma1: float
    epsilon: float
    clip_weights: float

    def finish(self, run: Run, new_weight: Array) -> None:
        """Clip the new weight."""
        if self.clip_weights >= 0:
            run.xp.clip(new_weight, -self.clip_weights, self.clip_weights, out=new_weight)


@register("rmsprop_update")
class RmspropUpdate(_Rmsprop):
    """``n = gamma1 * n + (1 - gamma1) * g²``, ``weight - lr * g / sqrt(n + epsilon)``.

    Tieleman and Hinton, Coursera lecture 6.5 (2012).
    """

    states: ClassVar[tuple[str, ...]] = ("n",)

    lr: float = attribute(doc=RATE)
    gamma1: float = attribute(0.95, doc="decay of the mean of squared gradients")
    epsilon: float = attribute(1e-8, doc="added to that")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    clip_weights: float = attribute(-1.0, doc="largest magnitude of a weight; negative: any")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, n = inputs
        step = prepare_gradient(run, weight, grad, self, decay_before_clip=True)
        move_average(n, step * step, self.gamma1)
        step /= run.xp.sqrt(n + self.epsilon)
        step *= self.lr
        run.xp.subtract(weight, step, out=outputs[0])
        self.finish(run, outputs[0])


@register("rmspropalex_update")
class RmspropAlexUpdate(_Rmsprop):
    """RMSProp of centered gradients with a momentum ``delta`` (Graves, arXiv:1308.0850, 38-45)."""

    states: ClassVar[tuple[str, ...]] = ("n", "g", "delta")

    lr: float = attribute(doc=RATE)
    gamma1: float = attribute(0.95, doc="decay of the means of gradients and of their squares")
    gamma2: float = attribute(0.9, doc="decay of earlier steps")
    epsilon: float = attribute(1e-8, doc="added to the variance")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    clip_weights: float = attribute(-1.0, doc="largest magnitude of a weight; negative: any")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, n, g, delta = inputs
        step = prepare_gradient(run, weight, grad, self, decay_before_clip=True)
        move_average(n, step * step, self.gamma1)
        move_average(g, step, self.gamma1)
        step /= run.xp.sqrt(n - g * g + self.epsilon)
        step *= self.lr
        delta *= self.gamma2
        delta -= step
        run.xp.add(weight, delta, out=outputs[0])
        self.finish(run, outputs[0])


@register("ftrl_update", "_sparse_ftrl_update")
class FtrlUpdate(Update):
    """Follow the regularized leader (McMahan et al., KDD 2013)."""

    states: ClassVar[tuple[str, ...]] = ("z", "n")

    lr: float = attribute(doc=RATE)
    lamda1: float = attribute(0.01, doc="L1 regularization")
    beta: float = attribute(1.0, doc="added to the root of the sum of squared gradients")
    wd: float = attribute(0.0, doc="L2 regularization")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, z, n = inputs
        xp = run.xp
        gradient = prepare_gradient(run, weight, grad, self, wd=0.0)
        before = xp.sqrt(n)
        n += gradient * gradient
        after = xp.sqrt(n)
        z += gradient
        z -= (after - before) / self.lr * weight
        after += self.beta
        after /= self.lr
        after += self.wd
        xp.divide(xp.clip(z, -self.lamda1, self.lamda1) - z, after, out=outputs[0])


@register("ftml_update")
class FtmlUpdate(Update):
    """Follow the moving leader (Zheng and Kwok, ICML 2017)."""

    states: ClassVar[tuple[str, ...]] = ("d", "v", "z")

    lr: float = attribute(doc=RATE)
    beta1: float = attribute(0.6, doc="decay of earlier steps")
    beta2: float = attribute(0.999, doc="decay of the mean of squared gradients")
    epsilon: float = attribute(1e-8, doc="added to the root of that")
    t: int = attribute(doc="number of this step, from 1")
    wd: float = attribute(0.0, doc=DECAY)
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_grad: float = attribute(-1.0, doc=CLIP)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        weight, grad, d, v, z = inputs
        gradient = prepare_gradient(
            run, weight, grad, self, clip=self.clip_grad, decay_before_clip=True
        )
        move_average(z, gradient, self.beta1)
        gradient *= gradient
        move_average(v, gradient, self.beta2)
        new_d = run.xp.sqrt(v / (1 - as_single(self.beta2) ** self.t))
        new_d += self.epsilon
        new_d *= (1 - as_single(self.beta1) ** self.t) / self.lr
        z -= (new_d - self.beta1 * d) * weight
        d[...] = new_d
        run.xp.divide(z, d, out=outputs[0])
        run.xp.negative(outputs[0], out=outputs[0])
