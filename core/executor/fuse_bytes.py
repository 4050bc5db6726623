"""Fusion of int32 sums with what makes bytes of them again.

Networks that were quantized layer by layer put out sums of 32 bits, and requantize them next. In
one step, sums never leave the registers.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from ..capabilities.fused import REQUANTIZED
from ..capabilities.kinds import Kind, implements
from ..capabilities.quantized import (
    SUMMING_ADDITION,
    SUMMING_CONVOLUTION,
    SUMMING_FULLY_CONNECTED,
)
from ..ops import Operator, Run
from ..ops.quantized.base import FLOAT32, INT32
from ..ops.quantized.conversion import Requantize
from ..types import Array
from .ir import Program, Step
from .primitives import Primitive

__all__ = ["Requantized", "fuse_bytes"]

_SUMMING = frozenset({SUMMING_ADDITION, SUMMING_CONVOLUTION, SUMMING_FULLY_CONNECTED})


@implements(REQUANTIZED)
class Requantized(Primitive):
    """Sums made bytes of a known range. Inputs: those of what sums up.

    Attributes:
        source: the operator that sums up.
        requantize: the operator behind it.
    """

    names = ("_plan_requantized",)

    def __init__(self, source: Operator, requantize: Requantize) -> None:
        self.source = source
        self.requantize = requantize

    def input_names(self) -> tuple[str, ...]:
        return self.source.input_names()

    def output_names(self) -> tuple[str, ...]:
        return self.requantize.output_names()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run one after the other."""
        sums = [run.scratch(outputs[0].shape, INT32)]
        sums += [run.scratch((1,), FLOAT32) for _ in range(2)]
        self.source.forward(run, inputs, sums)
        self.requantize.forward(run, sums, outputs)


def fuse_bytes(program: Program, kernels: Set[Kind[Any]]) -> bool:
    """Fuse what can be fused; tell whether anything was.

    Args:
        program: changed in place.
        kernels: kinds of the operators there are kernels for.
    """
    if program.backward_steps or REQUANTIZED not in kernels:
        return False
    readers: dict[int, list[Step]] = {}
    for step in program.steps:
        for value in step.reads():
            readers.setdefault(value, []).append(step)
    kept = {*program.outputs, *(value.base for value in program.values)}
    fused: dict[Step, Step] = {}
    absorbed: set[Step] = set()
    for step in program.steps:
        if step.op.kind not in _SUMMING or kept & {*step.outputs}:
            continue
        behind = {reader for value in step.writes() for reader in readers.get(value, ())}
        if len(behind) != 1:
            continue
        (last,) = behind
        if not isinstance(last.op, Requantize) or not last.op.is_calibrated:
            continue
        op = Requantized(step.op, last.op)
        fused[last] = Step(op, last.node, step.inputs, last.outputs)
        absorbed.add(step)
    steps = [fused.get(step, step) for step in program.steps if step not in absorbed]
    program.replace_steps(steps, ())
    return bool(fused)
