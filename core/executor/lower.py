"""From a planned program to closures without arguments over arrays that stay where they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.backends.kernels import KernelArrays, KernelResources, Version
from core.executor.arena import Arena, Cached, Scratch
from core.executor.check import checked
from core.executor.ir import Place, Program, Slots, Step, Value
from core.executor.memory import MemoryPlan
from core.ops import Run
from core.types import Array, DType, Shape

__all__ = ["Bindings", "Call", "Lowering"]

_BYTES = np.dtype("uint8")

Call = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Bindings:
    """The arrays that are not the plan's own.

    Attributes:
        arguments: in the order of ``list_arguments``.
        auxiliaries: in the order of ``list_auxiliary_states``.
        gradients: by position of the argument, None where there is none.
        outputs: by position of the head.
        versions: by position of the argument; None where the array may change at any time.
    """

    arguments: Sequence[Array]
    auxiliaries: Sequence[Array]
    gradients: Sequence[Array | None]
    outputs: Sequence[Array]
    versions: Sequence[Version | None]


class Lowering:
    """Gives every value its array and every step its closure.

    Args:
        program: what to lower.
        memory: addresses in the arena's values; None gives every value memory of its own.
        bindings: the arrays of all other places.
        arena: must be large enough.
        run: what operators are given.
        scratch: where ``run.scratch`` comes from.
        check_kernels: whether every kernel is compared with its reference at each run.
    """

    def __init__(
        self,
        program: Program,
        memory: MemoryPlan | None,
        bindings: Bindings,
        arena: Arena,
        run: Run,
        scratch: Scratch,
        *,
        check_kernels: bool = False,
    ) -> None:
        self.program = program
        self._memory = memory
        self._bindings = bindings
        self._arena = arena
        self._run = run
        self._scratch = scratch
        self._check_kernels = check_kernels
        self._arrays: list[Array | None] = [None] * len(program.values)
        self._bound: dict[Place, Sequence[Array | None]] = {
            Place.ARGUMENT: bindings.arguments,
            Place.AUXILIARY: bindings.auxiliaries,
            Place.GRADIENT: bindings.gradients,
            Place.OUTPUT: bindings.outputs,
        }

    def array(self, value: int) -> Array:
        """Return the array of a value; of bytes, where it has a layout of its own."""
        found = self._arrays[value]
        if found is None:
            found = self._arrays[value] = self._make_array(self.program.values[value])
        return found

    def arrays(self, slots: Slots) -> tuple[Array | None, ...]:
        """Return arrays by position."""
        return tuple(None if slot is None else self.array(slot) for slot in slots)

    def call(self, step: Step) -> Call:
        """Return the closure that runs a step."""
        if step.kernel is None:
            return self._reference_call(step)
        return self._kernel_call(step)

    # -- arrays -----------------------------------------------------------------------------

    def _make_array(self, value: Value) -> Array:
        shape, dtype = value.shape, value.dtype
        if value.layout is not None:
            shape, dtype = (value.nbytes,), _BYTES
        if value.base is not None:
            return _as(self.array(value.base), shape, dtype)
        bound = self._bound.get(value.place)
        if bound is not None:
            array = bound[value.index]
            assert array is not None
            return _as(array, shape, dtype)
        if value.place is Place.CACHE:
            return self._cached(value).array
        if self._memory is None:
            return self._arena.backend.empty(shape, dtype)
        return self._arena.values.array(self._memory.offsets[value.id], shape, dtype)

    def _cached(self, value: Value) -> Cached:
        version = self._bindings.versions[value.index]
        assert version is not None
        return self._arena.cached(version, value.layout, value.nbytes)

    # -- closures ---------------------------------------------------------------------------

    def _reference_call(self, step: Step) -> Call:
        inputs, outputs = self.arrays(step.inputs), self.arrays(step.outputs)
        if step.source is None:
            return _forward_call(step.op.forward, self._run, self._scratch, inputs, outputs)
        return _backward_call(
            step.op.backward,
            self._run,
            self._scratch,
            self.arrays(step.out_grads),
            inputs,
            outputs,
            self.arrays(step.in_grads),
        )

    def _kernel_call(self, step: Step) -> Call:
        assert step.kernel is not None
        arrays = KernelArrays(
            inputs=self.arrays(step.inputs),
            outputs=self.arrays(step.outputs),
            out_grads=self.arrays(step.out_grads),
            in_grads=self.arrays(step.in_grads),
            workspace=None if step.workspace is None else self.array(step.workspace),
        )
        resources = KernelResources(
            xp=self._run.xp,
            allocate=self._arena.backend.empty,
            scratch=self._scratch.take,
            versions=tuple(self._version(slot) for slot in step.inputs),
        )
        call = _scratched(step.kernel.bind(arrays, resources), self._scratch)
        for target in step.writes():
            value = self.program.values[target]
            if value.place is Place.CACHE:
                version = self._bindings.versions[value.index]
                assert version is not None
                return _when_changed(call, self._cached(value), version)
        if self._check_kernels:
            return checked(call, step, self.program, arrays, resources, self._run)
        return call

    def _version(self, slot: int | None) -> Version | None:
        if slot is None:
            return None
        value = self.program.values[slot]
        if value.place not in (Place.ARGUMENT, Place.CACHE):
            return None
        return self._bindings.versions[value.index]


def _as(array: Array, shape: Shape, dtype: DType) -> Array:
    """Return the beginning of an array's memory as another shape and dtype."""
    if array.shape == shape and array.dtype == dtype:
        return array
    if array.dtype != dtype:
        array = array.reshape(-1).view(dtype)
    return array.reshape(shape)


def _forward_call(
    forward: Callable[..., None],
    run: Run,
    scratch: Scratch,
    inputs: Sequence[Array | None],
    outputs: Sequence[Array | None],
) -> Call:
    def call() -> None:
        scratch.top = 0
        forward(run, inputs, outputs)

    return call


def _backward_call(
    backward: Callable[..., None],
    run: Run,
    scratch: Scratch,
    out_grads: Sequence[Array | None],
    inputs: Sequence[Array | None],
    outputs: Sequence[Array | None],
    in_grads: Sequence[Array | None],
) -> Call:
    def call() -> None:
        scratch.top = 0
        backward(run, out_grads, inputs, outputs, in_grads)

    return call


def _scratched(kernel: Call, scratch: Scratch) -> Call:
    def call() -> None:
        scratch.top = 0
        kernel()

    return call


def _when_changed(reorder: Call, cached: Cached, version: Version) -> Call:
    def call() -> None:
        count = version.count
        if cached.seen != count:
            reorder()
            cached.seen = count

    return call
