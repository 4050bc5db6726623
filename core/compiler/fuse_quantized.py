"""Fusion of quantized layers with the requantization of their int32 sums to int8.

Networks that were quantized layer by layer output 32-bit sums and then requantize them. In a fused
step the sums never leave the registers.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from ..capabilities.fused import REQUANTIZED
from ..capabilities.kinds import Kind, implements
from ..capabilities.quantized import SUMMING_ADDITION, SUMMING_CONVOLUTION, SUMMING_FULLY_CONNECTED
from ..ops import Operator, Run
from ..ops.quantized.base import FLOAT32, INT32
from ..ops.quantized.conversion import Requantize
from ..types import Array
from .ir import Program, Step
from .primitives import Primitive

__all__ = ["Requantized", "fuse_quantized"]

_SUMMING = frozenset({SUMMING_ADDITION, SUMMING_CONVOLUTION, SUMMING_FULLY_CONNECTED})


@implements(REQUANTIZED)
class Requantized(Primitive):
    """A quantized layer whose int32 sums are requantized to a known range. Inputs: the layer's.

    Attributes:
        source: the quantized layer.
        requantize: the requantization that follows it.
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
        """Run one operator after the other."""
        sums = [run.scratch(outputs[0].shape, INT32)]
        sums += [run.scratch((1,), FLOAT32) for _ in range(2)]
        self.source.forward(run, inputs, sums)
        self.requantize.forward(run, sums, outputs)


def fuse_quantized(program: Program, kernels: Set[Kind[Any]]) -> bool:
    """Fuse what can be fused; return whether anything was.

    Args:
        program: changed in place.
        kernels: kinds of operators that have kernels.
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
        # The requantization reads all three outputs: the sums, and the range they stand for.
        behind = {reader for value in step.writes() for reader in readers.get(value, ())}
        if len(behind) != 1:
            continue
        (last,) = behind
        # Typed, because the kernel of the fused step is registered for exactly this pair.
        if not isinstance(last.op, Requantize) or not last.op.is_calibrated:
            continue
        op = Requantized(step.op, last.op)
        fused[last] = Step(op, last.node, step.inputs, last.outputs)
        absorbed.add(step)
    steps = [fused.get(step, step) for step in program.steps if step not in absorbed]
    program.replace_steps(steps, ())
    return bool(fused)
