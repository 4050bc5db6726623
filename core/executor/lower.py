"""Lowering: turns a planned program into closures without arguments over fixed arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..compiler.ir import Place, Program, Slots, Step, Value
from ..compiler.memory import MemoryPlan, aligned
from ..compiler.primitives import ConcatInPlace
from ..compiler.sparse_step import SparseStep
from ..kernels.kernel import (
    KernelArrays,
    KernelResources,
    TensorSpec,
    Version,
    library_failure,
    reorder,
)
from ..ops import Run
from ..ops.csr import Csr
from ..ops.rows import Rows
from ..types import Array, DType, Shape
from .arena import Arena, Cached, Scratch
from .check import checked

__all__ = ["Bindings", "Call", "Lowering", "Refresh"]

_BYTES = np.dtype("uint8")

Call = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Bindings:
    """The arrays that a plan does not allocate itself.

    Attributes:
        arguments: in the order of ``list_arguments``; None for a sparse argument that no step
            reads as a dense array.
        auxiliaries: in the order of ``list_auxiliary_states``.
        gradients: by position of the argument, None if there is none; ``Rows`` for those kept
            row by row.
        outputs: by position of the head.
        versions: of the arguments, then of the auxiliary states; None for an array that may change
            at any time.
        stored: the containers of sparse arguments, by position.
    """

    arguments: Sequence[Array | None]
    auxiliaries: Sequence[Array]
    gradients: Sequence[Array | None]
    outputs: Sequence[Array]
    versions: Sequence[Version | None]
    stored: Mapping[int, Rows | Csr] = dataclasses.field(default_factory=dict)


class Refresh:
    """Recomputes a cache entry if the version of an array it was computed from has changed."""

    __slots__ = ("_cached", "_make", "versions")

    def __init__(self, cached: Cached, versions: Sequence[Version], make: Call) -> None:
        self._cached = cached
        self.versions = versions
        self._make = make

    def __call__(self) -> None:
        count = sum(version.count for version in self.versions)
        if self._cached.seen != count:
            self._make()
            self._cached.seen = count


class Lowering:
    """Assigns every value its array and every step its closure.

    Args:
        program: what to lower.
        memory: offsets into the arena's values; None allocates every value separately.
        bindings: the arrays of all other places.
        arena: its regions must be large enough already.
        run: passed to the forward functions of operators.
        run_back: passed to their backward functions.
        scratch: the source of ``run.scratch``.
        check_kernels: whether every kernel is compared with its reference at each run.

    Attributes:
        refreshes: closures to be called in order before a pass if any version has changed.
    """

    def __init__(
        self,
        program: Program,
        memory: MemoryPlan | None,
        bindings: Bindings,
        arena: Arena,
        run: Run,
        run_back: Run,
        scratch: Scratch,
        *,
        check_kernels: bool = False,
    ) -> None:
        self.program = program
        self._memory = memory
        self._bindings = bindings
        self._arena = arena
        self._run = run
        self._run_back = run_back
        self._scratch = scratch
        self._check_kernels = check_kernels
        self.refreshes: list[Refresh] = []
        # Weak, because what a kernel shares has to go with the last closure that uses it.
        self._shared: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        self._arrays: list[Array | None] = [None] * len(program.values)
        self._bound: dict[Place, Sequence[Array | None]] = {
            Place.ARGUMENT: bindings.arguments,
            Place.AUXILIARY: bindings.auxiliaries,
            Place.GRADIENT: bindings.gradients,
            Place.OUTPUT: bindings.outputs,
        }

    def array(self, value: int) -> Array:
        """Return a value's array: raw bytes if it has a layout, a container if it is sparse."""
        found = self._arrays[value]
        if found is None:
            found = self._arrays[value] = self._make_array(self.program.values[value])
        return found

    def readable(self, value: int) -> Any:
        """Return the array of a value, or the container of an argument that has none."""
        found = self.program.values[value]
        if found.place is Place.ARGUMENT and self._bindings.arguments[found.index] is None:
            return self._bindings.stored[found.index]
        return self.array(value)

    def plain(self, value: int) -> Any:
        """Return what ``readable`` does; of a value in a kernel's own layout, a plain copy."""
        spec = self.program.values[value].spec
        if spec.layout is None:
            return self.readable(value)
        empty = self._arena.backend.empty
        target = empty(spec.shape, spec.dtype)
        kernel = reorder(spec, TensorSpec(spec.shape, spec.dtype))
        resources = KernelResources(
            xp=self._run.xp,
            allocate=empty,
            scratch=empty,
            versions=(None,),
            prepack=lambda key, positions, nbytes, make: empty((nbytes,), _BYTES),
            scratchpad=empty((kernel.scratchpad_bytes,), _BYTES),
        )
        arrays = KernelArrays(inputs=(self.array(value),), outputs=(target,))
        if status := kernel.bind(arrays, resources)():
            raise library_failure(status)
        return target

    def arrays(self, slots: Slots) -> tuple[Array | None, ...]:
        """Return arrays by position."""
        return tuple(None if slot is None else self.array(slot) for slot in slots)

    def updated_versions(self) -> list[Version]:
        """Return the versions of the auxiliary states that steps update."""
        updated = {slot for step in self.program.steps for slot in step.updates}
        versions = [self._version(slot) for slot in sorted(updated)]
        return [version for version in versions if version is not None]

    def call(self, step: Step) -> Call | None:
        """Return the closure that runs a step; None if it was added to ``refreshes`` instead or
        there is nothing to do."""
        if isinstance(step.op, ConcatInPlace):
            return None
        call = self._reference_call(step) if step.kernel is None else self._kernel_call(step)
        for target in step.writes():
            value = self.program.values[target]
            if value.place is Place.CACHE:
                self.refreshes.append(Refresh(*self._cached(value), call))
                return None
        return call

    # -- arrays -----------------------------------------------------------------------------

    def _make_array(self, value: Value) -> Array:
        shape, dtype = value.shape, value.dtype
        if value.place is Place.SPARSE:
            return Csr(shape, dtype) if value.stype == "csr" else Rows(shape, dtype)
        if value.layout is not None:
            shape, dtype = (value.nbytes,), _BYTES
        if value.base is not None:
            array = self.array(value.base)
            if value.part is not None:
                # ``part`` counts bytes, whatever the dtype or layout of the output.
                array = array.reshape(-1).view(_BYTES)[value.part : value.part + value.nbytes]
            return _as(array, shape, dtype)
        bound = self._bound.get(value.place)
        if bound is not None:
            array = bound[value.index]
            assert array is not None
            return _as(array, shape, dtype)
        if value.place is Place.CACHE:
            return _as(self._cached(value)[0].array, shape, dtype)
        if self._memory is None:
            return self._arena.backend.empty(shape, dtype)
        return self._arena.values.array(self._memory.offsets[value.id], shape, dtype)

    def _cached(self, value: Value) -> tuple[Cached, tuple[Version]]:
        version = self._bindings.versions[value.index]
        assert version is not None
        # The layout tells apart all copies of one variable: the only plain one is that in float32.
        return self._arena.cached((version,), value.layout, value.nbytes), (version,)

    # -- closures ---------------------------------------------------------------------------

    def _reference_call(self, step: Step) -> Call:
        inputs = (
            self._as_stored(step.op, step.inputs)
            if isinstance(step.op, SparseStep)
            else self._elements(step.inputs)
        )
        outputs = self._elements(step.outputs)
        if step.source is None:
            return _forward_call(step.op.forward, self._run, self._scratch, inputs, outputs)
        in_grads = self._elements(step.in_grads)
        own = [
            rows
            for slot, rows in zip(step.in_grads, in_grads, strict=True)
            if slot is not None and self.program.values[slot].place is Place.SPARSE
        ]
        return _backward_call(
            _clearing(own, step.op.backward) if own else step.op.backward,
            self._run_back,
            self._scratch,
            self._elements(step.out_grads),
            inputs,
            outputs,
            in_grads,
        )

    def _elements(self, slots: Slots) -> tuple[Array | None, ...]:
        """Return arrays by position; those with a layout as vectors of their dtype."""
        values = self.program.values
        return tuple(
            array
            if array is None or slot is None or isinstance(array, (Rows, Csr))
            else array.view(values[slot].dtype)
            for slot, array in zip(slots, self.arrays(slots), strict=True)
        )

    def _as_stored(self, op: SparseStep, slots: Slots) -> tuple[Any, ...]:
        """Return the operands of a step, with containers for the arguments it reads as stored."""
        return tuple(
            self._bindings.stored[self.program.values[slot].index]
            if slot is not None
            and position in op.kernel.stored
            and self.program.values[slot].place is Place.ARGUMENT
            else self._elements((slot,))[0]
            for position, slot in enumerate(slots)
        )

    def _kernel_call(self, step: Step) -> Call:
        kernel = step.kernel
        assert kernel is not None
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
            prepack=partial(self._prepack, step),
            scratchpad=self._scratchpad(kernel.scratchpad_bytes),
            shared=self._shared,
        )
        # Within the scope, because kernels of a GPU are loaded on the current device.
        with self._arena.backend.scope():
            call = kernel.bind(arrays, resources)
        if kernel.uses_scratch:
            # The kernel's scratchpad lies at the beginning of the same region.
            call = _scratched(call, self._scratch, aligned(kernel.scratchpad_bytes))
        if self._check_kernels:
            return checked(call, step, self.program, arrays, resources, self._run)
        return call

    def _prepack(
        self,
        step: Step,
        key: Hashable,
        positions: Sequence[int],
        nbytes: int,
        make: Callable[[Array], None],
    ) -> Array:
        versions = tuple(
            version
            for version in (self._version(step.inputs[position]) for position in positions)
            if version is not None
        )
        # ``KernelRequest.is_constant`` has told the kernel which inputs have versions.
        assert len(versions) == len(positions), (step, positions)
        cached = self._arena.cached(versions, key, nbytes)
        self.refreshes.append(Refresh(cached, versions, partial(make, cached.array)))
        return cached.array

    def _scratchpad(self, nbytes: int) -> Array | None:
        return self._arena.scratch.array(0, (nbytes,), _BYTES) if nbytes else None

    def _version(self, slot: int | None) -> Version | None:
        if slot is None:
            return None
        value = self.program.values[slot]
        index = value.index
        if value.place is Place.AUXILIARY:
            index += len(self._bindings.arguments)
        elif value.place not in (Place.ARGUMENT, Place.CACHE):
            return None
        return self._bindings.versions[index]


def _as(array: Array, shape: Shape, dtype: DType) -> Array:
    """Return a view of an array's memory in another shape and dtype."""
    if array.shape == shape and array.dtype == dtype:
        return array
    if array.dtype != dtype:
        # NumPy changes the size of elements only along a contiguous axis.
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


def _clearing(own: Sequence[Any], backward: Callable[..., None]) -> Callable[..., None]:
    """Wrap a backward function so that it clears the rows of the last run before adding to them."""

    def cleared(*operands: Any) -> None:
        for rows in own:
            rows.clear()
        backward(*operands)

    return cleared


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


def _scratched(kernel: Call, scratch: Scratch, start: int) -> Call:
    def call() -> Any:
        scratch.top = start
        return kernel()

    return call
