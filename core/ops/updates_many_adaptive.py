"""AdamW and LAMB for many weights in one call, with groups as in ``updates_many``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import Array, Shape
from .attributes import attribute
from .operator import Run
from .registry import declares_attributes, register
from .updates import CLIP, RESCALE
from .updates_adamw import AdamwUpdate
from .updates_layerwise import LambPhase1, LambPhase2, write_lamb_direction
from .updates_many import MOST_WEIGHTS, ManyUpdates

__all__ = [
    "MultiAdamwUpdate",
    "MultiLambUpdate",
    "MultiMixedAdamwUpdate",
    "MultiMixedLambUpdate",
]

_FLOAT32 = np.dtype("float32")
_MEAN = "decay rate of the mean of gradients"
_SQUARES = "decay rate of the mean of their squares"


def _norm(run: Run, array: Array) -> Array:
    wide = array.astype(_FLOAT32)
    return run.xp.sqrt((wide * wide).sum()).reshape(1)


@declares_attributes
class _ManyAdamw(ManyUpdates):
    """Base; the gradients' factor is an input of one number."""

    shared = ("rescale_grad",)

    lrs: tuple[float, ...] = attribute(doc="learning rate of each weight")
    beta1: float = attribute(0.9, doc=_MEAN)
    beta2: float = attribute(0.999, doc=_SQUARES)
    epsilon: float = attribute(1e-8, doc="added to the square root of that mean")
    wds: tuple[float, ...] = attribute(doc="weight decay of each weight")
    etas: tuple[float, ...] = attribute(doc="factor of each weight's whole step")
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")

    @property
    def count(self) -> int:
        return self.num_weights

    def __post_init__(self) -> None:
        self.check_lengths(lrs=self.lrs, wds=self.wds, etas=self.etas)

    def step(
        self,
        run: Run,
        number: int,
        weight: Array,
        group: Sequence[Array],
        shared: Sequence[list[float]],
        out: Array,
    ) -> None:
        update = AdamwUpdate(
            lr=self.lrs[number],
            wd=self.wds[number],
            eta=self.etas[number],
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            clip_gradient=self.clip_gradient,
        )
        ((scale,),) = shared
        grad, mean, var = group[1:4]
        update.step(run, weight, grad, mean, var, scale, out)


@register("_multi_adamw_update")
class MultiAdamwUpdate(_ManyAdamw):
    """``_adamw_update`` of each group; the gradients' factor is the last input."""

    states = ("mean", "var")


@register("_multi_mp_adamw_update")
class MultiMixedAdamwUpdate(_ManyAdamw):
    """``_mp_adamw_update`` of each group; the gradients' factor is the last input."""

    states = ("mean", "var", "weight32")


@declares_attributes
class _ManyLamb(ManyUpdates):
    """Base."""

    learning_rates: tuple[float, ...] = attribute(doc="learning rate of each weight")
    beta1: float = attribute(0.9, doc=_MEAN)
    beta2: float = attribute(0.999, doc=_SQUARES)
    epsilon: float = attribute(1e-6, doc="added to the square root of that mean")
    wds: tuple[float, ...] = attribute(doc="weight decay of each weight")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    lower_bound: float = attribute(-1.0, doc="lower limit of a weight's norm; negative for none")
    upper_bound: float = attribute(-1.0, doc="upper limit of a weight's norm; negative for none")
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    bias_correction: bool = attribute(
        True, doc="whether to correct the bias of the means towards their initial zeros"
    )
    step_count: Shape = attribute(doc="number of each weight's step, from 1")
    num_tensors: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")

    @property
    def count(self) -> int:
        return self.num_tensors

    def __post_init__(self) -> None:
        self.check_lengths(
            learning_rates=self.learning_rates, wds=self.wds, step_count=self.step_count
        )

    def step(
        self,
        run: Run,
        number: int,
        weight: Array,
        group: Sequence[Array],
        shared: Sequence[list[float]],
        out: Array,
    ) -> None:
        first = LambPhase1(
            t=self.step_count[number],
            wd=self.wds[number],
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            rescale_grad=self.rescale_grad,
            clip_gradient=self.clip_gradient,
            bias_correction=self.bias_correction,
        )
        second = LambPhase2(
            lr=self.learning_rates[number],
            lower_bound=self.lower_bound,
            upper_bound=self.upper_bound,
        )
        direction = run.scratch(weight.shape, weight.dtype)
        grad, mean, var = group[1:4]
        write_lamb_direction(run, first, weight, grad, mean, var, direction)
        norms = [_norm(run, array) for array in (group[0], direction)]
        run.xp.subtract(weight, second.scaled(run, direction, *norms), out=out)


@register("_multi_lamb_update")
class MultiLambUpdate(_ManyLamb):
    """Both phases of LAMB for each group."""

    states = ("mean", "var")


@register("_multi_mp_lamb_update")
class MultiMixedLambUpdate(_ManyLamb):
    """Both phases of LAMB for the float32 copy in each group, which the output rounds.

    As in MXNet, the step's length depends on the norm of the rounded weight.
    """

    states = ("mean", "var", "weight32")
