"""Steps of plain descent for many weights in one call.

The inputs come in groups: weight, gradient, and what the rule keeps. In a group of half precision
a float32 copy of the weight is last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from core.errors import AttributeValueError
from core.ops.attributes import attribute
from core.ops.operator import Operator, Reads, Run
from core.ops.registry import register
from core.ops.updates import CLIP, RESCALE, SgdMomUpdate, SgdUpdate, Update
from core.ops.updates_mixed import MixedSgdMomUpdate, MixedSgdUpdate
from core.types import Array, DType, Shape

__all__ = [
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
"""Names are made for each weight before its arrays are seen: no file may ask for millions."""


class _Many(Operator):
    """Base: one output for each of ``num_weights`` groups; nothing has a gradient."""

    variadic = ""
    single: ClassVar[type[Update]]
    """The step of one group."""

    rescale_grad: float
    clip_gradient: float
    num_weights: int

    def _group_names(self) -> tuple[str, ...]:
        return ("weight", "grad", *self.single.states)

    def _shared_names(self) -> tuple[str, ...]:
        """Names of the inputs after all groups."""
        return ()

    def input_names(self) -> tuple[str, ...]:
        numbers = range(self.num_weights)
        groups = (f"{name}_{number}" for number in numbers for name in self._group_names())
        return (*groups, *self._shared_names())

    def auxiliary_names(self) -> tuple[str, ...]:
        return tuple(
            f"{name}_{number}" for number in range(self.num_weights) for name in self.single.states
        )

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{number}" for number in range(self.num_weights))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        size = len(self._group_names())
        return tuple((number * size, number) for number in range(self.num_weights))

    def rates(self, inputs: Sequence[Array]) -> list[tuple[float, float]]:
        """Return learning rate and decay of each group."""
        raise NotImplementedError

    def _step(self, lr: float, wd: float) -> Update:
        settings = {"rescale_grad": self.rescale_grad, "clip_gradient": self.clip_gradient}
        if hasattr(self, "momentum"):
            settings["momentum"] = self.momentum
        return self.single(lr=lr, wd=wd, **settings)  # type: ignore[call-arg]

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        step, size = self._step(0.0, 0.0), len(self._group_names())
        found_inputs: list[Shape | None] = []
        found_outputs: list[Shape | None] = []
        for number, output in enumerate(outputs):
            group = inputs[number * size : (number + 1) * size]
            group, (output,) = step.infer_shape(group, [output])
            found_inputs += group
            found_outputs.append(output)
        shared = zip(self._shared_names(), inputs[len(found_inputs) :], strict=True)
        found_inputs += [self.expect(name, shape, (self.num_weights,)) for name, shape in shared]
        return found_inputs, found_outputs

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        step, size = self._step(0.0, 0.0), len(self._group_names())
        found_inputs: list[DType | None] = []
        found_outputs: list[DType | None] = []
        for number, output in enumerate(outputs):
            group = inputs[number * size : (number + 1) * size]
            group, (output,) = step.infer_type(group, [output])
            found_inputs += group
            found_outputs.append(output)
        return [*found_inputs, *inputs[len(found_inputs) :]], found_outputs

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        size = len(self._group_names())
        for number, (lr, wd) in enumerate(self.rates(inputs)):
            group = inputs[number * size : (number + 1) * size]
            self._step(lr, wd).forward(run, group, outputs[number : number + 1])


class _Listed(_Many):
    """Base: rates and decays are attributes."""

    lrs: tuple[float, ...]
    wds: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, values in (("lrs", self.lrs), ("wds", self.wds)):
            if len(values) != self.num_weights:
                raise AttributeValueError(
                    f"{name} has {len(values)} numbers; expected num_weights = {self.num_weights}"
                )

    def rates(self, inputs: Sequence[Array]) -> list[tuple[float, float]]:
        return list(zip(self.lrs, self.wds, strict=True))


class _Preloaded(_Many):
    """Base: rates and decays are the last two inputs."""

    def _shared_names(self) -> tuple[str, ...]:
        return ("lrs", "wds")

    def rates(self, inputs: Sequence[Array]) -> list[tuple[float, float]]:
        return list(zip(inputs[-2].tolist(), inputs[-1].tolist(), strict=True))


@register("multi_sgd_update")
class MultiSgdUpdate(_Listed):
    """``sgd_update`` of each group, with its own rate and decay."""

    single = SgdUpdate

    lrs: tuple[float, ...] = attribute(doc="learning rate of each weight")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("multi_sgd_mom_update")
class MultiSgdMomUpdate(_Listed):
    """``sgd_mom_update`` of each group, with its own rate and decay."""

    single = SgdMomUpdate

    lrs: tuple[float, ...] = attribute(doc="learning rate of each weight")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    momentum: float = attribute(0.0, doc="decay of earlier steps")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("multi_mp_sgd_update")
class MultiMixedSgdUpdate(_Listed):
    """``mp_sgd_update`` of each group, with its own rate and decay."""

    single = MixedSgdUpdate

    lrs: tuple[float, ...] = attribute(doc="learning rate of each weight")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("multi_mp_sgd_mom_update")
class MultiMixedSgdMomUpdate(_Listed):
    """``mp_sgd_mom_update`` of each group, with its own rate and decay."""

    single = MixedSgdMomUpdate

    lrs: tuple[float, ...] = attribute(doc="learning rate of each weight")
    wds: tuple[float, ...] = attribute(doc="decay of each weight")
    momentum: float = attribute(0.0, doc="decay of earlier steps")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("preloaded_multi_sgd_update")
class PreloadedSgdUpdate(_Preloaded):
    """``sgd_update`` of each group, with rates and decays given as arrays."""

    single = SgdUpdate

    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("preloaded_multi_sgd_mom_update")
class PreloadedSgdMomUpdate(_Preloaded):
    """``sgd_mom_update`` of each group, with rates and decays given as arrays."""

    single = SgdMomUpdate

    momentum: float = attribute(0.0, doc="decay of earlier steps")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("preloaded_multi_mp_sgd_update")
class PreloadedMixedSgdUpdate(_Preloaded):
    """``mp_sgd_update`` of each group, with rates and decays given as arrays."""

    single = MixedSgdUpdate

    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")


@register("preloaded_multi_mp_sgd_mom_update")
class PreloadedMixedSgdMomUpdate(_Preloaded):
    """``mp_sgd_mom_update`` of each group, with rates and decays given as arrays."""

    single = MixedSgdMomUpdate

    momentum: float = attribute(0.0, doc="decay of earlier steps")
    rescale_grad: float = attribute(1.0, doc=RESCALE)
    clip_gradient: float = attribute(-1.0, doc=CLIP)
    num_weights: int = attribute(1, minimum=1, maximum=MOST_WEIGHTS, doc="number of weights")
