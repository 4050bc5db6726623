"""Gradient descent for many weights in one call, and the base of all such operators.

Inputs come in groups: weight, gradient, and the states of the rule. In groups of half precision, a
float32 copy of the weight comes last. Inputs shared by all groups follow them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..errors import AttributeValueError
from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import declares_attributes, register
from .updates import CLIP, RESCALE, SgdMomUpdate, SgdUpdate, Update

__all__ = [
    "MOST_WEIGHTS",
    "ManyUpdates",
    "MultiMixedSgdMomUpdate",
    "MultiMixedSgdUpdate",
    "MultiSgdMomUpdate",
    "MultiSgdUpdate",
    "PreloadedMixedSgdMomUpdate",
    "PreloadedMixedSgdUpdate",
    "PreloadedSgdMomUpdate",
    "PreloadedSgdUpdate",
]

MOST_WEIGHTS = 10_000
"""Names are made for each weight before any array is seen, so a hostile file could otherwise
exhaust memory."""

_FLOAT32 = np.dtype("float32")
_EACH_RATE = "learning rate of each weight"
_EACH_DECAY = "weight decay of each weight"


class ManyUpdates(Operator):
    """Base: one output for each group of weight, gradient and states; no gradients.

    The last of the states may be ``weight32``: the float32 copy, to which the step is applied.
    """

    variadic = ""
    states: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...]] = ()
    """Names of the shared inputs, after all groups."""

    @property
    def count(self) -> int:
        """Number of groups."""
        raise NotImplementedError

    def shared_spec(self) -> tuple[Shape, DType | None]:
        """Shape of each shared input, and its dtype if it is fixed."""
        return (1,), _FLOAT32

    def step(
        self,
        run: Run,
        number: int,
        weight: Array,
        group: Sequence[Array],
        shared: Sequence[list[float]],
        out: Array,
    ) -> None:
        """Update the states of one group and write its new weight.

        Args:
            run: the environment of the operator.
            number: index of the group.
            weight: the weight or its float32 copy.
            group: the arrays of the group.
            shared: the values of each shared input.
            out: like ``weight``; may be ``weight``.
        """
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

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return tuple((self._group(number).start, number) for number in range(self.count))

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
            found[place] = self.expect(names[place], inputs[place], self.shared_spec()[0])
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
            found[place] = self.expect_dtype(names[place], inputs[place], self.shared_spec()[1])
        return found, results

    def check_lengths(self, **lists: Sequence[float]) -> None:
        """Raise AttributeValueError unless each list has a number for each weight."""
        for name, numbers in lists.items():
            if len(numbers) != self.count:
                raise AttributeValueError(
                    f"{name} has {len(numbers)} numbers; expected one for each of {self.count} "
                    "weights"
                )

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        shared = [array.tolist() for array in inputs[len(inputs) - len(self.shared) :]]
        for number, out in enumerate(outputs):
            group = inputs[self._group(number)]
            if "weight32" in self.states:
                self.step(run, number, group[-1], group, shared, group[-1])
                run.xp.copyto(out, group[-1], casting="unsafe")
            else:
                self.step(run, number, group[0], group, shared, out)


@declares_attributes
class _Sgd(ManyUpdates):
    """Base: ``sgd_update`` of each group."""

    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")

    @property
    def count(self) -> int:
        return self.num_weights

    def rates(self, number: int, shared: Sequence[list[float]]) -> tuple[float, float]:
        """Return the learning rate and weight decay of one group."""
        raise NotImplementedError

    def rule(self, lr: float, wd: float) -> Update:
        """Return the operator that updates one group."""
        return SgdUpdate(
            lr=lr,
            wd=wd,
            rescale_grad=self.rescale_grad,
            clip_gradient=self.clip_gradient,
            lazy_update=False,
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
        rule = self.rule(*self.rates(number, shared))
        rule.forward(run, [weight, *group[1 : 2 + len(rule.states)]], [out])


@declares_attributes
class _SgdMom(_Sgd):
    """Base: ``sgd_mom_update`` of each group."""

    momentum: float = attribute(0.0, doc="factor by which earlier steps decay")

    def rule(self, lr: float, wd: float) -> Update:
        return SgdMomUpdate(
            lr=lr,
            wd=wd,
            momentum=self.momentum,
            rescale_grad=self.rescale_grad,
            clip_gradient=self.clip_gradient,
            lazy_update=False,
        )


@declares_attributes
class _Listed(_Sgd):
    """Base: learning rates and weight decays are attributes."""

    lrs: tuple[float, ...] = attribute(doc=_EACH_RATE)
    wds: tuple[float, ...] = attribute(doc=_EACH_DECAY)

    def __post_init__(self) -> None:
        self.check_lengths(lrs=self.lrs, wds=self.wds)

    def rates(self, number: int, shared: Sequence[list[float]]) -> tuple[float, float]:
        return self.lrs[number], self.wds[number]


class _Preloaded(_Sgd):
    """Base: learning rates and weight decays are the last two inputs, of shape (num_weights,)."""

    shared = ("lrs", "wds")

    def shared_spec(self) -> tuple[Shape, DType | None]:
        return (self.num_weights,), None

    def rates(self, number: int, shared: Sequence[list[float]]) -> tuple[float, float]:
        lrs, wds = shared
        return lrs[number], wds[number]


@register("multi_sgd_update")
class MultiSgdUpdate(_Listed):
    """``sgd_update`` of each group, with its own learning rate and weight decay."""


@register("multi_sgd_mom_update")
class MultiSgdMomUpdate(_Listed, _SgdMom):
    """``sgd_mom_update`` of each group, with its own learning rate and weight decay."""

    states = ("mom",)


@register("multi_mp_sgd_update")
class MultiMixedSgdUpdate(_Listed):
    """``mp_sgd_update`` of each group, with its own learning rate and weight decay."""

    states = ("weight32",)


@register("multi_mp_sgd_mom_update")
class MultiMixedSgdMomUpdate(_Listed, _SgdMom):
    """``mp_sgd_mom_update`` of each group, with its own learning rate and weight decay."""

    states = ("mom", "weight32")


@register("preloaded_multi_sgd_update")
class PreloadedSgdUpdate(_Preloaded):
    """``sgd_update`` of each group, with learning rates and weight decays given as arrays."""


@register("preloaded_multi_sgd_mom_update")
class PreloadedSgdMomUpdate(_Preloaded, _SgdMom):
    """``sgd_mom_update`` of each group, with learning rates and weight decays given as arrays."""

    states = ("mom",)


@register("preloaded_multi_mp_sgd_update")
class PreloadedMixedSgdUpdate(_Preloaded):
    """``mp_sgd_update`` of each group, with learning rates and weight decays given as arrays."""

    states = ("weight32",)


@register("preloaded_multi_mp_sgd_mom_update")
class PreloadedMixedSgdMomUpdate(_Preloaded, _SgdMom):
    """``mp_sgd_mom_update`` of each group, with rates and weight decays given as arrays."""

    states = ("mom", "weight32")
