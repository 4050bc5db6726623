"""Half precision in fast kernels: intermediate values become float32.

CPUs compute in float32, and their kernels and layouts are made for it. So float16 and bfloat16
remain only where they are visible from outside, in bound arrays and outputs, and where an attribute
of an operator demands them (``Cast``). Everything in between stays in float32, unrounded, so that
no step has to convert. Parameters are converted when they change, not at each run.

What a layer multiplies may still be rounded to bfloat16, where the graph declares it so and the
processor has instructions for it: ``Value.declared`` tells kernel selection about that.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from ..errors import MXNetError
from ..types import DType, is_half
from .ir import Place, Program, Slots, Step, Value
from .primitives import Copy, Primitive

__all__ = ["has_half", "upcast"]

_WIDE = np.dtype("float32")


def upcast(program: Program, constants: Set[int]) -> frozenset[int]:
    """Let every step that can do so read and write float32 instead of half precision.

    Args:
        program: changed in place; its views are folded.
        constants: values that have a version.

    Returns:
        The constants, including the values converted from them.
    """
    return _Widener(program, constants).run()


def has_half(program: Program) -> bool:
    """Return whether there is any value of half precision."""
    return any(is_half(value.dtype) for value in program.values)


class _Widener:
    def __init__(self, program: Program, constants: Set[int]) -> None:
        self._program = program
        self._constants = set(constants)
        self._steps: list[Step] = []
        self._wide: dict[int, int] = {}
        self._narrow: dict[int, int] = {}
        self._follows: dict[Step, bool] = {}

    def run(self) -> frozenset[int]:
        program = self._program
        for step in program.forward_steps:
            self._rewrite(step)
        forward, self._steps = self._steps, []
        for step in program.backward_steps:
            self._rewrite(step)
        program.replace_steps(forward, self._steps)
        return frozenset(self._constants)

    def _rewrite(self, step: Step) -> None:
        if isinstance(step.op, Copy):
            # A copy can convert at the same time, so its dtypes may differ.
            self._shown(step.reads()[0])
            self._steps.append(step)
            return
        follows = self._follows[step] = self._can_follow(step)
        reads = self._widened if follows else self._narrowed
        step.inputs = reads(step.inputs)
        if step.source is None:
            self._steps.append(step)
            if follows:
                step.outputs = self._written(step.outputs)
            return
        step.outputs = reads(step.outputs)
        step.out_grads = reads(step.out_grads)
        self._steps.append(step)
        if follows:
            step.in_grads = self._written(step.in_grads)

    # -- which steps ------------------------------------------------------------------------

    def _can_follow(self, step: Step) -> bool:
        if step.source is not None:
            # A forward step that another pass has removed was not widened.
            return self._follows.get(step.source, False)
        values = self._program.values
        if isinstance(step.op, Primitive):
            # Sums accumulate into the bound array itself, which keeps its dtype.
            return not any(values[slot].place is Place.GRADIENT for slot in step.writes())
        # States that are updated in place cannot be replaced by a converted copy.
        if not step.op.may_widen or any(is_half(values[slot].dtype) for slot in step.updates):
            return False
        inputs, outputs = self._dtypes(step.inputs), self._dtypes(step.outputs)
        # An attribute may demand half precision: then inference says so, or contradicts float32.
        try:
            _, found = step.op.infer_type(list(inputs), [None] * len(outputs))
        except MXNetError:
            return False
        return list(found) == outputs

    def _dtypes(self, slots: Slots) -> list[DType | None]:
        values = self._program.values
        dtypes = [None if slot is None else values[slot].dtype for slot in slots]
        return [_WIDE if dtype is not None and is_half(dtype) else dtype for dtype in dtypes]

    # -- which values -----------------------------------------------------------------------

    def _widened(self, slots: Slots) -> Slots:
        return tuple(None if slot is None else self._as_wide(slot) for slot in slots)

    def _narrowed(self, slots: Slots) -> Slots:
        return tuple(None if slot is None else self._as_narrow(slot) for slot in slots)

    def _as_wide(self, slot: int) -> int:
        value = self._shown(slot)
        if not is_half(value.dtype):
            return slot
        if slot not in self._wide:
            self._wide[slot] = self._new_wide(value).id
        return self._wide[slot]

    def _new_wide(self, value: Value) -> Value:
        program = self._program
        if value.is_view and value.base in self._wide:
            view = program.new_view(self._wide[value.base], value, value.name)
            view.dtype, view.declared = _WIDE, value.dtype
            return view
        wide = self._converted(value, _WIDE)
        wide.declared = value.dtype
        if (data := program.data(value.id)) in self._constants:
            # Now the step that converts it runs only when the variable has changed.
            wide.place, wide.index = Place.CACHE, data
            self._constants.add(wide.id)
        return wide

    def _as_narrow(self, slot: int) -> int:
        """Return a value in its original dtype."""
        value = self._shown(slot)
        dtype = value.declared
        if dtype is None or value.dtype == dtype:
            return slot
        if slot not in self._narrow:
            self._narrow[slot] = self._converted(value, dtype).id
        return self._narrow[slot]

    def _shown(self, slot: int) -> Value:
        """Return a value; if it is a view, after giving it the dtype of its base."""
        value = self._program.values[slot]
        if value.is_view and is_half(value.dtype):
            assert value.base is not None
            if not is_half(self._shown(value.base).dtype):
                self._declare_wide(value)
        return value

    def _declare_wide(self, value: Value) -> None:
        value.declared, value.dtype = value.dtype, _WIDE

    def _converted(self, value: Value, dtype: DType) -> Value:
        """Return a copy in another dtype."""
        target = self._program.new_value(value.name, value.shape, dtype)
        self._steps.append(Step(Copy(), value.name, (value.id,), (target.id,)))
        return target

    def _written(self, slots: Slots) -> Slots:
        """Return the values to write instead; bound arrays and outputs are converted afterwards."""
        return tuple(None if slot is None else self._target(slot) for slot in slots)

    def _target(self, slot: int) -> int:
        value = self._program.values[slot]
        if not is_half(value.dtype):
            return slot
        if value.place is Place.ARENA:
            self._declare_wide(value)
            return slot
        wide = self._program.new_value(value.name, value.shape, _WIDE)
        wide.declared = value.dtype
        self._steps.append(Step(Copy(), value.name, (wide.id,), (slot,)))
        # Later steps read the unrounded value, not the copy that was made for the caller.
        self._wide[slot] = wide.id
        return wide.id
