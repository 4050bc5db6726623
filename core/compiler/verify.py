"""Invariants of a program between passes, and of a memory plan.

A violation is a bug in the engine, never in the caller's graph; it is raised before a wrong result
can be computed.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

from ..errors import MXNetError
from ..types import shape_size
from .ir import Place, Program, Slots, Step, Value
from .memory import ALIGNMENT, Lifetime, MemoryPlan
from .primitives import ConcatInPlace, Reorder

__all__ = ["InvalidPlan", "verify_memory", "verify_program"]


class InvalidPlan(MXNetError):
    """A compiler pass produced a plan that would not compute what the graph says."""


def verify_program(
    program: Program, requests: Mapping[int, str], after: str, *, operators: bool = False
) -> None:
    """Check a program.

    Every value is written once and before it is read, and is not overwritten while it is still
    needed; layouts, shapes and dtypes of operands match; outputs and the requested gradients
    exist at the end.

    Args:
        program: what to check.
        requests: the gradient requests by position of the argument.
        after: the pass that ran last, for the message.
        operators: also repeat every operator's inference, whose results passes must preserve.

    Raises:
        InvalidPlan: naming the step, the value and the pass.
    """
    _Checker(program, requests, after, operators).run()


class _Checker:
    def __init__(
        self, program: Program, requests: Mapping[int, str], after: str, operators: bool
    ) -> None:
        self._program = program
        self._requests = requests
        self._after = after
        self._operators = operators
        self._memory = [program.memory(value.id).id for value in program.values]
        self._region = [program.region(value.id) for value in program.values]
        self._parts: dict[int, list[int]] = {}
        for value in program.values:
            if value.part is not None:
                self._parts.setdefault(self._memory[value.id], []).append(value.id)
        self._data = [program.data(value.id) for value in program.values]
        self._data_in: dict[int, int] = {}
        """The value whose data each region of memory currently holds, by region."""
        self._written: set[int] = set()

    def run(self) -> None:
        program = self._program
        for value in program.values:
            if self._is_given(value):
                self._hold(value.id)
        self._check_views()
        for position, step in enumerate(program.steps):
            if position == program.forward_length:
                self._begin_backward()
            if step.is_backward and position < program.forward_length:
                self._fail(step, "stands in the forward pass")
            self._check_step(step)
        self._check_results()

    def _is_given(self, value: Value) -> bool:
        """Return whether the caller provides the value before the first step."""
        if value.place in (Place.ARGUMENT, Place.AUXILIARY):
            return True
        is_sum = value.place is Place.GRADIENT and self._requests.get(value.index) == "add"
        return is_sum and value.base is None

    def _begin_backward(self) -> None:
        self._check_outputs("after the forward pass")
        for given in self._program.head_gradients:
            if given is not None:
                self._hold(given)

    def _check_step(self, step: Step) -> None:
        for value in step.reads():
            self._check_read(step, value)
        self._check_specs(step)
        if isinstance(step.op, ConcatInPlace):
            self._join(step)
            return
        for value in step.writes():
            if value in self._written:
                self._fail(step, f"writes {self._name(value)} a second time")
            owner = self._memory[value]
            if owner != value:
                self._check_overwriting(step, value, owner)
            self._hold(value)

    def _join(self, step: Step) -> None:
        """Check that the inputs of a concatenation fill its output, one after the other."""
        (whole,) = step.outputs
        assert whole is not None
        values, end = self._program.values, 0
        for part in (values[slot] for slot in step.inputs if slot is not None):
            if (part.base, part.part) != (whole, end):
                self._fail(step, f"expects {self._name(part.id)} at offset {end}, got {part.part}")
            end += part.nbytes
        if end != values[whole].nbytes or self._region[whole] != whole:
            self._fail(step, f"leaves parts of {self._name(whole)} unwritten")
        if whole in self._written:
            self._fail(step, f"writes {self._name(whole)} a second time")
        self._written.add(whole)
        self._data_in[whole] = whole

    def _check_overwriting(self, step: Step, value: int, owner: int) -> None:
        target, memory = self._program.values[value], self._program.values[owner]
        if target.part is not None:
            begin = self._program.offset(value)
            if begin % ALIGNMENT or begin + target.nbytes > memory.nbytes:
                self._fail(step, f"writes {self._name(value)} at {begin} of {memory.name!r}")
        if target.is_view:
            self._fail(step, f"writes {self._name(value)}, which is a view")
        if target.nbytes > memory.nbytes:
            self._fail(step, f"writes {self._name(value)} over smaller {memory.name!r}")

    def _check_read(self, step: Step, value: int) -> None:
        data = self._data[value]
        if data not in self._written:
            self._fail(step, f"reads {self._name(value)} before it is written")
        holds = self._data_in[self._region[value]]
        if holds != data:
            self._fail(
                step, f"reads {self._name(value)}, which {self._name(holds)} has overwritten"
            )
        is_plain = self._program.values[value].layout is None
        has_kernel = step.kernel is not None or isinstance(step.op, ConcatInPlace)
        if not has_kernel and not is_plain and not self._is_in_one_order(step):
            self._fail(step, f"reads {self._name(value)} in a layout, but has no kernel")

    def _is_in_one_order(self, step: Step) -> bool:
        """Return whether a step is elementwise and all its operands have one layout."""
        values = self._program.values
        layouts = {values[slot].layout for slot in (*step.reads(), *step.writes())}
        return step.op.is_elementwise() and len(layouts) == 1

    def _check_specs(self, step: Step) -> None:
        if isinstance(step.op, Reorder):
            if step.kernel is None:
                self._fail(step, "has no kernel")
        elif step.source is not None:
            self._check_same(step, step.in_grads, step.source.inputs)
            self._check_same(step, step.out_grads, step.source.outputs)
        elif self._operators and not isinstance(step.op, ConcatInPlace):
            self._check_inference(step)

    def _check_inference(self, step: Step) -> None:
        inputs = [self._program.values[v] for v in step.inputs if v is not None]
        outputs = [self._program.values[v] for v in step.outputs if v is not None]
        shapes = [v.shape for v in inputs], [v.shape for v in outputs]
        dtypes = [v.dtype for v in inputs], [v.dtype for v in outputs]
        found_shapes = step.op.infer_shape(list(shapes[0]), list(shapes[1]))
        found_dtypes = step.op.infer_type(list(dtypes[0]), list(dtypes[1]))
        for got, (found_in, found_out) in ((shapes, found_shapes), (dtypes, found_dtypes)):
            if got != (list(found_in), list(found_out)):
                self._fail(step, f"maps {got[0]} to {got[1]}, expected {found_in} to {found_out}")

    def _check_same(self, step: Step, gradients: Slots, values: Slots) -> None:
        for gradient, value in zip(gradients, values, strict=True):
            if gradient is None or value is None:
                continue
            got, expected = self._program.values[gradient], self._program.values[value]
            if (got.shape, got.dtype) != (expected.shape, expected.dtype):
                self._fail(
                    step,
                    f"has a gradient {got.name!r} of {got.shape} {got.dtype} for "
                    f"{expected.name!r} of {expected.shape} {expected.dtype}",
                )

    def _check_views(self) -> None:
        # A view that all its readers have replaced by its base may remain on a blocked tensor.
        read = {slot for step in self._program.steps for slot in step.reads()}
        for value in self._program.values:
            if not value.is_view:
                continue
            assert value.base is not None
            base = self._program.values[value.base]
            sizes = shape_size(value.shape), shape_size(base.shape)
            is_blocked = value.layout is not None or base.layout is not None
            blocked = is_blocked and value.id in read
            if sizes[0] != sizes[1] or value.dtype != base.dtype or blocked:
                self._raise(f"{self._name(value.id)} cannot be a view of {self._name(base.id)}")

    def _check_results(self) -> None:
        program = self._program
        self._check_outputs("at the end")
        for index, request in self._requests.items():
            gradient = program.gradients.get(index)
            if gradient is None:
                if request == "write":
                    self._raise(f"the gradient of argument {index} is missing")
                continue
            memory = program.memory(gradient)
            if (memory.place, memory.index) != (Place.GRADIENT, index):
                self._raise(f"the gradient of argument {index} is not in its array")
            if self._data_in.get(memory.id) != program.data(gradient):
                self._raise(f"the gradient of argument {index} is not in its array at the end")

    def _check_outputs(self, when: str) -> None:
        for output in self._program.outputs:
            memory = self._program.memory(output)
            if memory.place.is_planned or memory.place is Place.CACHE:
                self._raise(f"output {self._name(output)} lies in planned memory")
            if self._data_in.get(memory.id) != self._program.data(output):
                self._raise(f"output {self._name(output)} is not there {when}")

    def _hold(self, value: int) -> None:
        self._written.add(value)
        region = self._region[value]
        self._data_in[region] = value
        # Other regions that share bytes with this one no longer hold what was written there.
        for other in self._overlapping(region):
            self._data_in[other] = value

    def _overlapping(self, region: int) -> list[int]:
        """Return the other regions that share bytes with a region."""
        memory, values, offset = self._memory[region], self._program.values, self._program.offset
        parts = self._parts.get(memory, [])
        if not parts:
            return []
        begin = offset(region)
        end = begin + values[region].nbytes
        return [
            other
            for other in (memory, *parts)
            if other != region
            and begin < offset(other) + values[other].nbytes
            and offset(other) < end
        ]

    def _name(self, value: int) -> str:
        return f"value {value} {self._program.values[value].name!r}"

    def _fail(self, step: Step, what: str) -> None:
        self._raise(f"{step} {what}")

    def _raise(self, what: str) -> None:
        raise InvalidPlan(f"after {self._after}: {what}; this is a bug in the engine, report it")


def verify_memory(lives: Mapping[int, Lifetime], plan: MemoryPlan) -> None:
    """Check that values alive at the same step do not overlap and all lie in the arena.

    Raises:
        InvalidPlan: naming the two values.
    """
    events: list[tuple[int, int, int]] = []
    for owner, life in lives.items():
        offset = plan.offsets.get(owner, -1)
        if offset < 0 or offset % ALIGNMENT or offset + life.nbytes > plan.nbytes:
            raise InvalidPlan(f"memory plan: value {owner} lies at {offset}, outside or unaligned")
        # Lifetimes include both ends, so at one step those that begin come before those that end.
        events += [(life.start, 0, owner), (life.stop, 1, owner)]
    # Sorted by offset. None of these overlap, so a new value need only be compared with the two
    # that it lies between.
    live: list[tuple[int, int]] = []
    for _, is_end, owner in sorted(events):
        offset = plan.offsets[owner]
        if is_end:
            del live[bisect.bisect_left(live, (offset, owner))]
            continue
        position = bisect.bisect_left(live, (offset, owner))
        for start, other in live[max(position - 1, 0) : position + 1]:
            if start < offset + lives[owner].nbytes and offset < start + lives[other].nbytes:
                raise InvalidPlan(f"memory plan: values {other} and {owner} overlap at {offset}")
        bisect.insort(live, (offset, owner))
