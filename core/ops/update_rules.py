"""The update rule of each optimizer.

Both the optimizer operators (``nd.adam_update``, and the variants for many weights and for half
precision) and ``mx.optimizer`` call these functions, which update weight and states in place. What
differs between callers stays there: the source of learning rates, the bias correction of averages,
and temporary memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..types import Array

__all__ = [
    "Step",
    "adagrad",
    "adam",
    "adam_direction",
    "as_single",
    "ftml",
    "ftrl",
    "group_adagrad",
    "lamb_direction",
    "lars_rate",
    "move_mean",
    "move_mean_square",
    "move_weight",
    "nag",
    "prepare",
    "rmsprop",
    "rmsprop_centered",
    "sign_step",
    "signum",
    "trust_ratio",
]


@dataclasses.dataclass(slots=True)
class Step:
    """The operands of one update. Not frozen, because ``step.out += other`` assigns.

    Attributes:
        xp: numpy or cupy.
        weight: the weight before the step.
        gradient: the gradient as computed by ``prepare``; rules may overwrite it.
        other: temporary memory of the same shape and dtype.
        out: array for the new weight; may be the weight itself.
    """

    xp: Any
    weight: Array
    gradient: Array
    other: Array
    out: Array


def prepare(
    step: Step,
    grad: Array,
    rescale: float,
    clip: float | None,
    wd: float,
    *,
    decay_before_clip: bool = False,
) -> None:
    """Set ``step.gradient`` to ``clip(rescale * grad) + wd * weight``.

    With ``decay_before_clip`` the sum is clipped, as in MXNet's Adam, RMSProp and FTML. ``grad``
    may have lower precision than the weight.
    """
    xp, gradient = step.xp, step.gradient
    xp.multiply(grad, rescale, out=gradient, dtype=gradient.dtype)
    if clip is not None and not decay_before_clip:
        xp.clip(gradient, -clip, clip, out=gradient)
    if wd:
        xp.multiply(step.weight, wd, out=step.other)
        gradient += step.other
    if clip is not None and decay_before_clip:
        xp.clip(gradient, -clip, clip, out=gradient)


def as_single(value: float) -> float:
    """Round a number to float32, as MXNet's operators do with their parameters.

    The rounding is visible for parameters close to 1, which are subtracted from 1.
    """
    return float(np.float32(value))


def move_mean(xp: Any, mean: Array, values: Array, keep: float, scratch: Array) -> None:
    """Set ``mean`` to ``keep * mean + (1 - keep) * values``; scratch may be the values."""
    mean *= keep
    xp.multiply(values, 1 - keep, out=scratch)
    mean += scratch


def move_mean_square(xp: Any, mean: Array, values: Array, keep: float, scratch: Array) -> None:
    """Set ``mean`` to ``keep * mean + (1 - keep) * values²``; scratch may be the values."""
    xp.multiply(values, values, out=scratch)
    move_mean(xp, mean, scratch, keep, scratch)


def move_weight(step: Step, states: Sequence[Array], *, lr: float, momentum: float = 0) -> None:
    """Gradient descent; a velocity, if there is one, becomes ``momentum * velocity - lr * g``."""
    step.gradient *= lr
    if not states:
        step.xp.subtract(step.weight, step.gradient, out=step.out)
        return
    (velocity,) = states
    velocity *= momentum
    velocity -= step.gradient
    step.xp.add(step.weight, velocity, out=step.out)


def nag(step: Step, states: Sequence[Array], *, lr: float, momentum: float, late_wd: float) -> None:
    """Nesterov's momentum.

    MXNet's version then subtracts ``lr * late_wd`` times this change from the velocity.
    """
    (velocity,) = states
    xp, change = step.xp, step.other
    step.gradient *= lr
    velocity *= momentum
    velocity -= step.gradient
    xp.multiply(velocity, momentum, out=change)
    change -= step.gradient
    xp.add(step.weight, change, out=step.out)
    if late_wd:
        change *= lr * late_wd
        velocity -= change


def sign_step(step: Step, direction: Array, length: float, keep: float) -> None:
    """``keep * weight + length * sign(direction)``."""
    signs = step.other
    step.xp.sign(direction, out=signs)
    signs *= length
    step.xp.multiply(step.weight, keep, out=step.out)
    step.out += signs


def signum(
    step: Step, states: Sequence[Array], *, lr: float, momentum: float, wd_lh: float
) -> None:
    """A step in the direction of the momentum's signs, with decoupled weight decay ``wd_lh``."""
    (velocity,) = states
    step.gradient *= 1 - as_single(momentum)
    velocity *= momentum
    velocity -= step.gradient
    sign_step(step, velocity, lr, 1 - lr * wd_lh)


def adam_direction(
    step: Step, states: Sequence[Array], *, beta1: float, beta2: float, epsilon: float
) -> Array:
    """Update both averages; return ``mean / (sqrt(variance) + epsilon)`` in the step's memory."""
    mean, variance = states
    xp, other = step.xp, step.other
    move_mean(xp, mean, step.gradient, as_single(beta1), other)
    move_mean_square(xp, variance, step.gradient, as_single(beta2), step.gradient)
    xp.sqrt(variance, out=other)
    other += epsilon
    return xp.divide(mean, other, out=other)


def adam(
    step: Step, states: Sequence[Array], *, lr: float, beta1: float, beta2: float, epsilon: float
) -> None:
    """Adam; callers include the bias correction in ``lr``."""
    direction = adam_direction(step, states, beta1=beta1, beta2=beta2, epsilon=epsilon)
    direction *= lr
    step.xp.subtract(step.weight, direction, out=step.out)


def lamb_direction(
    step: Step,
    states: Sequence[Array],
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    wd: float,
    count: int | None,
) -> Array:
    """Return Adam's direction plus weight decay, in the step's memory.

    ``count``, which starts from 1, is for bias correction; None means no correction.
    """
    mean, variance = states
    xp, direction, other = step.xp, step.gradient, step.other
    beta1, beta2 = as_single(beta1), as_single(beta2)
    move_mean(xp, mean, direction, beta1, other)
    move_mean_square(xp, variance, direction, beta2, direction)
    xp.multiply(variance, 1 if count is None else 1 / (1 - beta2**count), out=other)
    xp.sqrt(other, out=other)
    other += epsilon
    xp.divide(mean, other, out=direction)
    if count is not None:
        direction *= 1 / (1 - beta1**count)
    if wd:
        xp.multiply(step.weight, wd, out=other)
        direction += other
    return direction


def trust_ratio(
    weight_norm: Array, step_norm: Array, lower_bound: float | None, upper_bound: float | None
) -> Array:
    """Return LAMB's ratio of the norms, the weight's within bounds; 1 where either is 0."""
    norm = weight_norm
    if lower_bound is not None or upper_bound is not None:
        norm = norm.clip(lower_bound, upper_bound)
    is_zero = (norm == 0) | (step_norm == 0)
    ratio = norm / (step_norm + is_zero)
    ratio[is_zero] = 1
    return ratio


def lars_rate(lr: Any, weight_norm: Any, grad_norm: Any, wd: Any, eta: float, eps: float) -> Any:
    """Return LARS's rate of a layer whose norms are not 0, or of several layers given as arrays."""
    return lr * eta * weight_norm / (grad_norm + wd * weight_norm + eps)


def adagrad(
    step: Step, states: Sequence[Array], *, lr: float, epsilon: float, wd: float = 0
) -> None:
    """AdaGrad with decoupled weight decay."""
    (history,) = states
    xp, gradient, other = step.xp, step.gradient, step.other
    xp.multiply(gradient, gradient, out=other)
    history += other
    xp.add(history, epsilon, out=other)
    xp.sqrt(other, out=other)
    gradient /= other
    if wd:
        xp.multiply(step.weight, wd, out=other)
        gradient += other
    gradient *= lr
    xp.subtract(step.weight, gradient, out=step.out)


def group_adagrad(step: Step, states: Sequence[Array], *, lr: float, epsilon: float) -> None:
    """AdaGrad with one history for each row: the mean of the squares along it."""
    (history,) = states
    xp, gradient = step.xp, step.gradient
    xp.multiply(gradient, gradient, out=step.other)
    history += step.other.mean(axis=tuple(range(1, gradient.ndim)), keepdims=True)
    gradient /= xp.sqrt(history + epsilon)
    gradient *= lr
    xp.subtract(step.weight, gradient, out=step.out)


def rmsprop(
    step: Step,
    states: Sequence[Array],
    *,
    lr: float,
    gamma1: float,
    epsilon: float,
    clip: float | None,
) -> None:
    """RMSProp after Tieleman and Hinton; ``clip`` bounds the new weight."""
    (square,) = states
    xp, gradient, other = step.xp, step.gradient, step.other
    move_mean_square(xp, square, gradient, as_single(gamma1), other)
    xp.add(square, epsilon, out=other)
    xp.sqrt(other, out=other)
    gradient /= other
    gradient *= lr
    xp.subtract(step.weight, gradient, out=step.out)
    _clip_weight(step, clip)


def rmsprop_centered(
    step: Step,
    states: Sequence[Array],
    *,
    lr: float,
    gamma1: float,
    gamma2: float,
    epsilon: float,
    clip: float | None,
) -> None:
    """RMSProp after Graves: by the variance of the gradient, with a momentum ``delta``."""
    square, mean, delta = states
    xp, gradient, other = step.xp, step.gradient, step.other
    move_mean_square(xp, square, gradient, as_single(gamma1), other)
    move_mean(xp, mean, gradient, as_single(gamma1), other)
    xp.multiply(mean, mean, out=other)
    xp.subtract(square, other, out=other)
    other += epsilon
    xp.sqrt(other, out=other)
    gradient /= other
    gradient *= lr
    delta *= gamma2
    delta -= gradient
    xp.add(step.weight, delta, out=step.out)
    _clip_weight(step, clip)


def ftrl(
    step: Step, states: Sequence[Array], *, lr: float, lamda1: float, beta: float, wd: float
) -> None:
    """Follow the regularized leader: the weight is computed in closed form from the states.

    ``z += g - (sqrt(n + g²) - sqrt(n)) / lr * weight`` and ``n += g²``; then the weight is
    ``-sign(z) * max(|z| - lamda1, 0) / ((beta + sqrt(n)) / lr + wd)``.
    """
    z, n = states
    xp, root, other = step.xp, step.gradient, step.other
    z += step.gradient
    xp.sqrt(n, out=other)
    step.gradient *= step.gradient
    n += step.gradient
    xp.sqrt(n, out=root)
    xp.subtract(root, other, out=other)
    other *= step.weight
    other /= lr
    z -= other
    root += beta
    root /= lr
    root += wd
    # Soft thresholding of z, negated.
    xp.clip(z, -lamda1, lamda1, out=other)
    other -= z
    xp.divide(other, root, out=step.out)


def ftml(
    step: Step,
    states: Sequence[Array],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    count: int,
) -> None:
    """Follow the moving leader: the weight is computed in closed form from the states.

    With the means v of g² and z of g, ``new_d = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t)) +
    epsilon)``, ``z -= (new_d - beta1 * d) * weight``, and the weight is ``-z / new_d``.
    """
    d, v, z = states
    xp, gradient, new_d = step.xp, step.gradient, step.other
    single1, single2 = as_single(beta1), as_single(beta2)
    move_mean_square(xp, v, gradient, single2, step.other)
    move_mean(xp, z, gradient, single1, gradient)
    xp.divide(v, 1 - single2**count, out=new_d)
    xp.sqrt(new_d, out=new_d)
    new_d += epsilon
    new_d *= (1 - single1**count) / lr
    d *= -beta1
    d += new_d
    d *= step.weight
    z -= d
    d[...] = new_d
    xp.divide(z, d, out=step.out)
    xp.negative(step.out, out=step.out)


def _clip_weight(step: Step, clip: float | None) -> None:
    if clip is not None:
        step.xp.clip(step.out, -clip, clip, out=step.out)
