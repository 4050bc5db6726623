"""Operators that only plans contain: what connects the graph's own steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends.fused_operators import ACCUMULATE, implements
from ..ops import Operator, Run
from ..types import Array

__all__ = ["Accumulate", "Copy", "Primitive", "Reorder", "Zeros"]


class Primitive(Operator):
    """Base of these operators; no monitor sees them.

    Each is equal to itself alone: what it holds are no attributes that could be compared.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Zeros(Primitive):
    """Write zeros: the gradient of what nothing depends on."""

    names = ("_plan_zeros",)

    def input_names(self) -> tuple[str, ...]:
        return ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = 0


class Copy(Primitive):
    """Copy the input."""

    names = ("_plan_copy",)

    def is_elementwise(self) -> bool:
        return True

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])


@implements(ACCUMULATE)
class Accumulate(Primitive):
    """Add two contributions to one gradient."""

    def input_names(self) -> tuple[str, ...]:
        return ("sum", "contribution")

    def is_elementwise(self) -> bool:
        return True

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0), (1, 0))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.add(inputs[0], inputs[1], out=outputs[0])


class Reorder(Primitive):
    """Bring a tensor from one layout into another. Only the layout's own kernel can run it."""

    names = ("_plan_reorder",)
