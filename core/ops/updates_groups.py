"""Steps of AdamW and LAMB for many weights in one call, in groups as in ``updates_many``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from core.errors import AttributeValueError
from core.ops.attributes import attribute
from core.ops.operator import Operator, Reads, Run
from core.ops.registry import register
from core.ops.updates import CLIP, RESCALE
from core.ops.updates_adamw import AdamwUpdate
from core.ops.updates_layerwise import LambPhase1, LambPhase2, lamb_direction
from core.ops.updates_many import MOST_WEIGHTS
from core.types import Array, DType, Shape

__all__ = [
    "MultiAdamwUpdate",
    "MultiLambUpdate",
    "MultiMixedAdamwUpdate",
    "MultiMixedLambUpdate",
]

_FLOAT32 = np.dtype("float32")
_MEAN = "decay of the mean of gradients"
_SQUARES = "decay of the mean of their squares"


def _norm(run: Run, array: Array) -> Array:
    wide = array.astype(_FLOAT32)
    return run.xp.sqrt((wide * wide).sum()).reshape(1)


class _Groups(Operator):
    """Base: one output for each group of weight, gradient and states, which are moved.

    The last of the states may be ``weight32``: a float32 copy of a weight of half precision.
    """

    variadic = ""
    states: ClassVar[tuple[str, ...]] = ("mean", "var")
    shared: ClassVar[tuple[str, ...]] = ()
    """Inputs of one number each, after all groups."""

    @property
    def count(self) -> int:
        """How many groups there are."""
        raise NotImplementedError

    def input_names(self) -> tuple[str, ...]:
        names = ("weight", "grad", *self.states)
        groups = (f"{name}_{number}" for number in range(self.count) for name in names)
        return (*groups, *self.shared)

    def auxiliary_names(self) -> tuple[str, ...]:
        return tuple(f"{name}_{number}" for number in range(self.count) for name in self.states)

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{number}" for number in range(self.count))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def _group(self, number: int) -> slice:
        size = 2 + len(self.states)
        return slice(number * size, (number + 1) * size)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        names, found, results = self.input_names(), list(inputs), list(outputs)
        for number, common in enumerate(outputs):
            group = self._group(number)
            for name, shape in zip(names[group], inputs[group], strict=True):
                common = self.expect(name, shape, common)
            found[group] = [common] * len(inputs[group])
            results[number] = common
        for place in range(len(names) - len(self.shared), len(names)):
            found[place] = self.expect(names[place], inputs[place], (1,))
        return found, results

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        names, found, results = self.input_names(), list(inputs), list(outputs)
        alike = 2 if "weight32" in self.states else 2 + len(self.states)
        for number, common in enumerate(outputs):
            group = self._group(number)
            pairs = list(zip(names[group], inputs[group], strict=True))
            for name, dtype in pairs[:alike]:
                common = self.expect_dtype(name, dtype, common)
            wide = [self.expect_dtype(*pair, _FLOAT32) for pair in pairs[alike:]]
            found[group] = [*[common] * alike, *wide]
            results[number] = common
        for place in range(len(names) - len(self.shared), len(names)):
            found[place] = self.expect_dtype(names[place], inputs[place], _FLOAT32)
        return found, results

    def _check_lengths(self, **lists: Sequence[float]) -> None:
        for name, numbers in lists.items():
            if len(numbers) != self.count:
                raise AttributeValueError(
                    f"{name} has {len(numbers)} numbers; expected one for each of {self.count} "
                    "weights"
                )

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for number, out in enumerate(outputs):
            weight, grad, mean, var, *copy = inputs[self._group(number)]
            target = copy[0] if copy else out
            self.step(run, number, [copy[0] if copy else weight, grad, mean, var], inputs, target)
            if copy:
                run.xp.copyto(out, copy[0], casting="unsafe")

    def step(
        self, run: Run, number: int, group: Sequence[Array], inputs: Sequence[Array], out: Array
    ) -> None:
        """Move the states of one group and write its new weight."""
        raise NotImplementedError


class _ManyAdamw(_Groups):
    """Base."""

    shared: ClassVar[tuple[str, ...]] = ("rescale_grad",)

    lrs: tuple[float, ...]
    wds: tuple[float, ...]
    etas: tuple[float, ...]
    beta1: float
    beta2: float
    epsilon: float
    clip_gradient: float
    num_weights: int

    @property
    def count(self) -> int:
        return self.num_weights

    def __post_init__(self) -> None:
        self._check_lengths(lrs=self.lrs, wds=self.wds, etas=self.etas)

    def step(
        self, run: Run, number: int, group: Sequence[Array], inputs: Sequence[Array], out: Array
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
        weight, grad, mean, var = group
        update.step(run, weight, grad, mean, var, inputs[-1], out)


@register("_multi_adamw_update")
class MultiAdamwUpdate(_ManyAdamw):
    """``_adamw_update`` of each group; the gradients' factor is the last input."""

    lrs: tuple[float, ...] = attribute(doc="learning rate of each weight")
    beta1: float = attribute(0.9, doc=_MEAN)
    beta2: float = attribute(0.999, doc=_SQUARES)
    epsilon: float = attribute(1e-8, doc="added to the root of that")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    etas: tuple[float, ...] = attribute(doc="factor of each weight's whole step")
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("_multi_mp_adamw_update")
class MultiMixedAdamwUpdate(_ManyAdamw):
    """``_mp_adamw_update`` of each group; the gradients' factor is the last input."""

    states: ClassVar[tuple[str, ...]] = ("mean", "var", "weight32")

    lrs: tuple[float, ...] = attribute(doc="learning rate of each weight")
    beta1: float = attribute(0.9, doc=_MEAN)
    beta2: float = attribute(0.999, doc=_SQUARES)
    epsilon: float = attribute(1e-8, doc="added to the root of that")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    etas: tuple[float, ...] = attribute(doc="factor of each weight's whole step")
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


class _ManyLamb(_Groups):
    """Base."""

    learning_rates: tuple[float, ...]
    wds: tuple[float, ...]
    step_count: Shape
    beta1: float
    beta2: float
    epsilon: float
    rescale_grad: float
    lower_bound: float
    upper_bound: float
    clip_gradient: float
    bias_correction: bool
    num_tensors: int

    @property
    def count(self) -> int:
        return self.num_tensors

    def __post_init__(self) -> None:
        self._check_lengths(
            learning_rates=self.learning_rates, wds=self.wds, step_count=self.step_count
        )

    def step(
        self, run: Run, number: int, group: Sequence[Array], inputs: Sequence[Array], out: Array
    ) -> None:
        settings: dict[str, Any] = {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "rescale_grad": self.rescale_grad,
            "clip_gradient": self.clip_gradient,
            "bias_correction": self.bias_correction,
        }
        first = LambPhase1(t=self.step_count[number], wd=self.wds[number], **settings)
        second = LambPhase2(
            lr=self.learning_rates[number],
            lower_bound=self.lower_bound,
            upper_bound=self.upper_bound,
        )
        weight, grad, mean, var = group
        direction = run.scratch(weight.shape, weight.dtype)
        lamb_direction(run, first, weight, grad, mean, var, direction)
        rounded = inputs[self._group(number)][0]
        norms = [_norm(run, array) for array in (rounded, direction)]
        run.xp.subtract(weight, second.scaled(run, direction, *norms), out=out)


@register("_multi_lamb_update")
class MultiLambUpdate(_ManyLamb):
    """Both phases of LAMB for each group."""

    learning_rates: tuple[float, ...] = attribute(doc="learning rate of each weight")
    beta1: float = attribute(0.9, doc=_MEAN)
    beta2: float = attribute(0.999, doc=_SQUARES)
    epsilon: float = attribute(1e-6, doc="added to the root of that")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    lower_bound: float = attribute(-1.0, doc="smallest norm of a weight; negative: any")
    upper_bound: float = attribute(-1.0, doc="largest norm of a weight; negative: any")
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    bias_correction: bool = attribute(True, doc="whether means that began at zero are enlarged")
    step_count: Shape = attribute(doc="number of each weight's step, from 1")
    num_tensors: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("_multi_mp_lamb_update")
class MultiMixedLambUpdate(_ManyLamb):
    """Both phases of LAMB for the float32 copy in each group, which the output rounds.

    As in MXNet, the norm that decides the step's length is that of the rounded weight.
    """

    states: ClassVar[tuple[str, ...]] = ("mean", "var", "weight32")

    learning_rates: tuple[float, ...] = attribute(doc="learning rate of each weight")
    beta1: float = attribute(0.9, doc=_MEAN)
    beta2: float = attribute(0.999, doc=_SQUARES)
    epsilon: float = attribute(1e-6, doc="added to the root of that")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    lower_bound: float = attribute(-1.0, doc="smallest norm of a weight; negative: any")
    upper_bound: float = attribute(-1.0, doc="largest norm of a weight; negative: any")
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    bias_correction: bool = attribute(True, doc="whether means that began at zero are enlarged")
    step_count: Shape = attribute(doc="number of each weight's step, from 1")
    num_tensors: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")
