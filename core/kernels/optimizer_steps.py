"""Steps of optimizers that a backend may compute in one pass over memory.

The formulas are MXNet's, which differ from their sources in details such as where epsilon is added.
In all of them ``g`` is the gradient that ``GradientTerms`` describes, states are named in the
order in which they are given, and ``rate`` is the learning rate.
"""

from __future__ import annotations

import dataclasses

__all__ = [
    "FTRL",
    "NAG",
    "SGD",
    "AdaGrad",
    "Adam",
    "CenteredRMSProp",
    "FusedStep",
    "GradientTerms",
    "Momentum",
    "RMSProp",
    "Signum",
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
        decays_first: the limit holds for the sum, as MXNet has it in Adam and RMSProp.
    """

    rescale: float
    clip: float
    decay: float
    decays_first: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SGD:
    """``weight -= rate * g``."""

    rate: float


@dataclasses.dataclass(frozen=True, slots=True)
class Momentum:
    """Momentum (B. Polyak, 1964): ``velocity = momentum * velocity - rate * g``,
    ``weight += velocity``."""

    rate: float
    momentum: float


@dataclasses.dataclass(frozen=True, slots=True)
class NAG:
    """Nesterov's momentum (I. Sutskever et al., 2013) with MXNet's late decay of the velocity.

    velocity = momentum * velocity - rate * g
    change = momentum * velocity - rate * g
    weight += change
    velocity -= rate * late_decay * change
    """

    rate: float
    momentum: float
    late_decay: float


@dataclasses.dataclass(frozen=True, slots=True)
class Signum:
    """Signum (J. Bernstein et al., 2018, arXiv:1802.04434):
    ``velocity = momentum * velocity - (1 - momentum) * g``, and then
    ``weight = keep * weight + rate * sign(velocity)``."""

    rate: float
    momentum: float
    keep: float


@dataclasses.dataclass(frozen=True, slots=True)
class Adam:
    """Adam (D. Kingma, J. Ba, 2014, arXiv:1412.6980); the rate includes the correction of the bias.

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
    """AdaGrad (J. Duchi et al., 2011): ``history += g^2``,
    ``weight -= rate * (g / sqrt(history + epsilon) + decay * weight)``.

    The decay is no part of ``g``, so that it does not enter the history.
    """

    rate: float
    epsilon: float
    decay: float


@dataclasses.dataclass(frozen=True, slots=True)
class RMSProp:
    """RMSProp (T. Tieleman, G. Hinton: Lecture 6.5 of Neural Networks for Machine Learning, 2012).

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
class CenteredRMSProp:
    """RMSProp with the mean subtracted (A. Graves, 2013, arXiv:1308.0850, equations 38 to 45).

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
class FTRL:
    """FTRL-Proximal (H. B. McMahan et al.: Ad Click Prediction, 2013).

    z += g - (sqrt(n + g^2) - sqrt(n)) * weight / rate
    n += g^2
    weight = (clip(z, threshold) - z) / ((beta + sqrt(n)) / rate + decay)
    """

    rate: float
    threshold: float
    beta: float
    decay: float


UpdateRule = SGD | Momentum | NAG | Signum | Adam | AdaGrad | RMSProp | CenteredRMSProp | FTRL


@dataclasses.dataclass(frozen=True, slots=True)
class FusedStep:
    """A step of an optimizer: what becomes of the gradient, and what the rule makes of that."""

    gradient: GradientTerms
    rule: UpdateRule
