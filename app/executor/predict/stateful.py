"""Predictors of modules with states, which are additional inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.domain.serving import StateLink
from app.errors.tree import Invalid
from app.executor.modules.symbol_specs import Spec, SymbolSpecs
from app.executor.predict.batch_axes import TWO_SIZES, growing_axes
from app.executor.predict.predictor import Parameters, Predictor, SharedMemory
from core.errors import ShapeError
from core.io import DataDesc
from core.symbol import Symbol
from core.types import DType, Shape

__all__ = ["StateSpec", "StatefulPredictor", "stateful_predictor"]

_AXES = "ABCDEFGHIJKLM"
"""Letters for axes of a layout, none of them N, the batch axis."""


class StateSpec(NamedTuple):
    """One state.

    Attributes:
        name: of the input.
        output: name of the output with its next value.
        axis: the batch axis.
        shape: as bound, including the batch axis.
        dtype: of the input.
    """

    name: str
    output: str
    axis: int
    shape: Shape
    dtype: DType

    def shape_of(self, rows: int) -> Shape:
        """Return the shape for a number of examples."""
        return (*self.shape[: self.axis], rows, *self.shape[self.axis + 1 :])


class StatefulPredictor(NamedTuple):
    """A predictor that takes the states as inputs, and their specifications."""

    predictor: Predictor
    states: tuple[StateSpec, ...]


def stateful_predictor(
    symbol: Symbol,
    plain: Predictor,
    parameters: Parameters,
    memory: SharedMemory,
    links: Sequence[StateLink],
) -> StatefulPredictor:
    """Return a predictor with its states as additional inputs.

    Args:
        symbol: what it computes.
        plain: the predictor without them.
        parameters: the arrays to compute with.
        memory: the arena to compute in.
        links: the states.

    Raises:
        Invalid: a state is not an input, or its output cannot be its next value.
    """
    try:
        sizes = [plain.specs(size) for size in TWO_SIZES]
    except ShapeError as error:
        raise Invalid(
            "serving.states",
            f"a symbol that computes no batches of 2 and of 3 examples ({error})",
            "one that computes batches of any size",
            "leave the axis of the examples open, as 0, where the symbol says a shape",
        ) from None
    names = plain.output_names
    outputs = [dict(zip(names, one.outputs, strict=True)) for one in sizes]
    states = tuple(
        _state_spec(position, link, sizes, outputs, plain.bound_size)
        for position, link in enumerate(links)
    )
    of_output = {one.output: one.axis for one in states}
    axes = [of_output.get(name, axis) for name, axis in zip(names, plain.output_axes, strict=True)]
    descs = [DataDesc(one.name, one.shape, one.dtype, _layout(one)) for one in states]
    predictor = Predictor(
        *(symbol, parameters, [*plain.inputs, *descs], memory, plain.labels), output_axes=axes
    )
    return StatefulPredictor(predictor, states)


def _state_spec(
    position: int,
    link: StateLink,
    sizes: Sequence[SymbolSpecs],
    outputs: Sequence[Mapping[str, Spec]],
    bound_size: int,
) -> StateSpec:
    field = f"serving.states[{position}]"
    if link.state not in sizes[0].variables:
        raise Invalid(f"{field}.state", link.state, "an input of the symbol")
    if link.output not in outputs[0]:
        raise Invalid(f"{field}.output", link.output, f"one of {', '.join(outputs[0])}")
    (first, dtype), (second, _) = (one.variables[link.state] for one in sizes)
    grows = growing_axes(first, second)
    if len(grows) != 1:
        raise Invalid(
            f"{field}.state",
            f"shapes {first} and {second} for batches of 2 and of 3 examples",
            "a state with one axis that is as long as the batch",
        )
    found = [one[link.output][0] for one in outputs]
    if found != [first, second]:
        expected = f"an output of the shape of {link.state!r}, {first} for 2 examples"
        raise Invalid(f"{field}.output", f"{link.output!r} of shape {found[0]}", expected)
    axis = grows[0]
    shape = (*first[:axis], bound_size, *first[axis + 1 :])
    return StateSpec(link.state, link.output, axis, shape, dtype)


def _layout(state: StateSpec) -> str:
    axes = list(_AXES[: len(state.shape)])
    axes[state.axis] = "N"
    return "".join(axes)
