"""Steps of optimizers that a backend may compute in one pass over memory.

In all formulas ``g`` is the gradient that ``GradientTerms`` describes, states are named in the
order in which they are given, and ``rate`` is the learning rate.
"""

from __future__ import annotations

import dataclasses

__all__ = [
    "AdaGrad",
    "Adam",
    "CenteredRootMeanSquare",
    "Descent",
    "FollowTheLeader",
    "FusedStep",
    "GradientTerms",
    "MomentumDescent",
    "NesterovDescent",
    "RootMeanSquare",
    "SignDescent",
    "UpdateRule",
]


@dataclasses.dataclass(frozen=True, slots=True)
class GradientTerms:
    """What becomes of the gradient before a rule uses it.

        g = clip(rescale * gradient) + decay * weight

    Attributes:
        rescale: factor of the gradient.
        clip: largest magnitude; 0 for no limit.
        decay: weight decay.
        decays_first: the limit holds for the sum, as in Adam and RMSProp.
    """

    rescale: float
    clip: float
    decay: float
    decays_first: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Descent:
    """``weight -= rate * g``."""

    rate: float


@dataclasses.dataclass(frozen=True, slots=True)
class MomentumDescent:
    """``velocity = momentum * velocity - rate * g``, ``weight += velocity``."""

    rate: float
    momentum: float


@dataclasses.dataclass(frozen=True, slots=True)
class NesterovDescent:
    """Nesterov's momentum with MXNet's late decay of the velocity.

    velocity = momentum * velocity - rate * g
    change = momentum * velocity - rate * g
    weight += change
    velocity -= rate * late_decay * change
    """

    rate: float
    momentum: float
    late_decay: float


@dataclasses.dataclass(frozen=True, slots=True)
class SignDescent:
    """``velocity = momentum * velocity - (1 - momentum) * g``, and then
    ``weight = keep * weight + rate * sign(velocity)``."""

    rate: float
    momentum: float
    keep: float


@dataclasses.dataclass(frozen=True, slots=True)
class Adam:
    """Adam; the rate includes the correction of the bias.

    mean = keep_mean * mean + (1 - keep_mean) * g
    square = keep_square * square + (1 - keep_square) * g^2
    weight -= rate * mean / (sqrt(square) + epsilon)
    """

    rate: float
    keep_mean: float
    keep_square: float
    epsilon: float


@dataclasses.dataclass(frozen=True, slots=True)
class AdaGrad:
    """``history += g^2``, ``weight -= rate * (g / sqrt(history + epsilon) + decay * weight)``."""

    rate: float
    epsilon: float
    decay: float


@dataclasses.dataclass(frozen=True, slots=True)
class RootMeanSquare:
    """RMSProp after Tieleman and Hinton.

        square = keep * square + (1 - keep) * g^2
        weight = clip(weight - rate * g / sqrt(square + epsilon))

    Attributes:
        limit: largest magnitude of a weight; 0 for no limit.
    """

    rate: float
    keep: float
    epsilon: float
    limit: float


@dataclasses.dataclass(frozen=True, slots=True)
class CenteredRootMeanSquare:
    """RMSProp after Graves.

        square = keep * square + (1 - keep) * g^2
        mean = keep * mean + (1 - keep) * g
        delta = momentum * delta - rate * g / sqrt(square - mean^2 + epsilon)
        weight = clip(weight + delta)

    Attributes:
        limit: largest magnitude of a weight; 0 for no limit.
    """

    rate: float
    keep: float
    momentum: float
    epsilon: float
    limit: float


@dataclasses.dataclass(frozen=True, slots=True)
class FollowTheLeader:
    """FTRL, proximal.

    z += g - (sqrt(n + g^2) - sqrt(n)) * weight / rate
    n += g^2
    weight = (clip(z, threshold) - z) / ((beta + sqrt(n)) / rate + decay)
    """

    rate: float
    threshold: float
    beta: float
    decay: float


UpdateRule = (
    Descent
    | MomentumDescent
    | NesterovDescent
    | SignDescent
    | Adam
    | AdaGrad
    | RootMeanSquare
    | CenteredRootMeanSquare
    | FollowTheLeader
)


@dataclasses.dataclass(frozen=True, slots=True)
class FusedStep:
    """A step of an optimizer: what becomes of the gradient, and what the rule makes of that."""

    gradient: GradientTerms
    rule: UpdateRule
