"""Recognition of gates (swish, hard sigmoid, hard swish) that a graph spells out elementwise.

``x · sigmoid(x)``, ``clip(x + 3, 0, 6) / 6`` and ``x`` times the latter become one operator each,
which can be fused with a convolution and has a backward pass of a single step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..capabilities.functions import Arithmetic, Function, Pointwise
from ..capabilities.fused import SILU
from ..capabilities.kinds import implements
from ..ops import Reads, Run
from ..ops.elemwise_unary import sigmoid
from ..types import Array
from .ir import Place, Program, Step
from .primitives import Primitive

__all__ = ["Silu", "recognize_silu"]


@implements(SILU)
class Silu(Primitive):
    """A function with values between 0 and 1, or the data times that function: swish (Ramachandran
    et al., 2017), the hard sigmoid and the hard swish (Howard et al., MobileNetV3, 2019).

    Attributes:
        is_hard: whether the function is ``clip(x + shift, 0, width) / width`` instead of the
            sigmoid.
        multiplies: whether the data is multiplied by it.
        shift, width: parameters of the hard function.
    """

    names = ("_plan_gate",)

    def __init__(
        self, *, is_hard: bool, multiplies: bool, shift: float = 0.0, width: float = 1.0
    ) -> None:
        self.is_hard = is_hard
        self.multiplies = multiplies
        self.shift, self.width = shift, width

    def pointwise(self) -> Pointwise:
        if not self.is_hard:
            return (
                Pointwise(Function.SWISH, 1.0) if self.multiplies else Pointwise(Function.SIGMOID)
            )
        hard = Function.HARD_SWISH if self.multiplies else Function.HARD_SIGMOID
        return Pointwise(hard, 1 / self.width, self.shift / self.width)

    def is_elementwise(self) -> bool:
        return True

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, out = inputs[0], outputs[0]
        self._write_factor(run, data, out)
        if self.multiplies:
            run.xp.multiply(out, data, out=out)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Multiply the gradient by the factor's slope, or by factor + data · slope."""
        xp, data, target = run.xp, inputs[0], in_grads[0]
        assert target is not None
        factor, slope = (run.scratch(data.shape, data.dtype) for _ in range(2))
        self._write_factor(run, data, factor)
        self._write_slope(run, data, factor, slope)
        if self.multiplies:
            xp.multiply(slope, data, out=slope)
            xp.add(slope, factor, out=slope)
        xp.multiply(out_grads[0], slope, out=target)

    def _write_factor(self, run: Run, data: Array, factor: Array) -> None:
        if not self.is_hard:
            sigmoid(run, data, factor)
            return
        run.xp.add(data, self.shift, out=factor)
        run.xp.clip(factor, 0, self.width, out=factor)
        run.xp.divide(factor, self.width, out=factor)

    def _write_slope(self, run: Run, data: Array, factor: Array, slope: Array) -> None:
        xp = run.xp
        if not self.is_hard:
            xp.subtract(1, factor, out=slope)
            xp.multiply(slope, factor, out=slope)
            return
        inside, above = (run.scratch(data.shape, "bool") for _ in range(2))
        xp.add(data, self.shift, out=slope)
        # Both ends belong to the slope, as in the gradient of MXNet's clip.
        xp.less_equal(slope, self.width, out=inside)
        xp.greater_equal(slope, 0, out=above)
        inside &= above
        xp.multiply(inside, 1 / self.width, out=slope, casting="unsafe")


class _Chain(NamedTuple):
    """Steps that compute a factor from ``source``, which remains to be multiplied by ``scale``.

    The scale is 1 for a complete gate, and 1 / width if the division comes later.
    """

    source: int
    steps: tuple[Step, ...]
    gate: Silu
    scale: float = 1.0


def recognize_silu(program: Program) -> bool:
    """Replace each gate by one step; return whether there was any.

    Runs before the backward pass is appended. Nothing else may read the values within a chain.
    """
    finder = _Finder(program)
    replaced: dict[Step, Step | None] = {}
    # Products first, because their factors are part of them.
    for find in (finder.product, finder.factor):
        for step in program.steps:
            chain = None if step in replaced else find(step)
            if chain is None or any(one in replaced for one in chain.steps):
                continue
            replaced.update(dict.fromkeys(chain.steps))
            replaced[step] = Step(chain.gate, step.node, (chain.source,), step.outputs)
    found = (replaced.get(step, step) for step in program.steps)
    program.replace_steps([step for step in found if step is not None], [])
    return bool(replaced)


class _Finder:
    def __init__(self, program: Program) -> None:
        self._values = program.values
        self._reads = Counter(slot for step in program.steps for slot in step.reads())
        self._writers = {slot: step for step in program.steps for slot in step.writes()}

    def factor(self, step: Step) -> _Chain | None:
        """Return the chain that ends with the division of a hard factor."""
        chain = self._hard(step)
        return chain if chain is not None and chain.scale == 1 else None

    def product(self, step: Step) -> _Chain | None:
        """Return the chain that ends with the data times a factor, with or without a division."""
        scale, last = 1.0, step
        if (factor := _factor(step)) is not None:
            before = self._before(step)
            if before is None:
                return None
            scale, last = factor, before
        if last.op.arithmetic() is not Arithmetic.MULTIPLY or not self._has_equal_inputs(last):
            return None
        for one, other in (last.inputs, last.inputs[::-1]):
            chain = self._hidden(other)
            if chain is None or chain.source != one or abs(chain.scale / scale - 1) > _CLOSE:
                continue
            gate = chain.gate
            whole = Silu(is_hard=gate.is_hard, multiplies=True, shift=gate.shift, width=gate.width)
            return _Chain(chain.source, (*chain.steps, last, step), whole)
        return None

    def _hidden(self, slot: int | None) -> _Chain | None:
        """Return the chain that computes a value, if that value has only one reader."""
        step = self._writer(slot)
        if step is None:
            return None
        function = step.op.pointwise()
        if function is not None and function.function is Function.SIGMOID:
            (source,) = step.inputs
            assert source is not None
            return _Chain(source, (step,), Silu(is_hard=False, multiplies=False))
        return self._hard(step)

    def _hard(self, step: Step) -> _Chain | None:
        """Return the chain ``clip(x + shift, 0, width)``, with or without its division."""
        steps, factor = [step], _factor(step)
        if factor is not None:
            before = self._before(step)
            if before is None:
                return None
            steps.append(before)
        clip = steps[-1].op.pointwise()
        if clip is None or clip.function is not Function.CLIP or clip.alpha != 0 or clip.beta <= 0:
            return None
        width, shifting = clip.beta, self._before(steps[-1])
        shift = None if shifting is None else _shift(shifting)
        if shifting is None or shift is None:
            return None
        if factor is not None and abs(factor * width - 1) > _CLOSE:
            return None
        (source,) = shifting.inputs
        assert source is not None
        # Not of integers, whose quotient is truncated.
        if self._values[source].dtype.kind != "f":
            return None
        gate = Silu(is_hard=True, multiplies=False, shift=shift, width=width)
        return _Chain(source, (*steps, shifting), gate, 1 / width if factor is None else 1.0)

    def _has_equal_inputs(self, step: Step) -> bool:
        """Return whether all inputs of a step have one shape and dtype."""
        read = (self._values[slot] for slot in step.reads())
        return len({(value.shape, value.dtype) for value in read}) == 1

    def _before(self, step: Step) -> Step | None:
        """Return the writer of a step's only input, if nothing else reads that."""
        return self._writer(step.inputs[0]) if len(step.inputs) == 1 else None

    def _writer(self, slot: int | None) -> Step | None:
        if slot is None or self._reads[slot] != 1:
            return None
        is_hidden = self._values[slot].place is Place.ARENA
        return self._writers.get(slot) if is_hidden else None


_CLOSE = 1e-6
"""Relative difference of a graph's factor from 1 / width, which exporters round: 0.16666667."""


def _factor(step: Step) -> float | None:
    """Return the scalar by which a step multiplies, if that is all it does."""
    function = step.op.pointwise()
    if function is None or function.function is not Function.LINEAR or function.beta:
        return None
    return function.alpha or None


def _shift(step: Step) -> float | None:
    """Return the scalar that a step adds, if that is all it does."""
    function = step.op.pointwise()
    if function is None or function.function is not Function.LINEAR or function.alpha != 1:
        return None
    return function.beta
