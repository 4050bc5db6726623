"""A compiled program bound to arrays: what runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from operator import length_hint
from time import perf_counter
from typing import Any, Protocol

from ..compiler.compile import Compiled
from ..compiler.ir import Step
from ..device import Context
from ..errors import StageError
from ..kernels.chain import Chain
from ..kernels.kernel import Watch, library_failure
from ..ops import Run
from ..ops.precision import unsupported_dtype
from ..ops.subgraph import Bodies
from ..profiler.recorder import Recorder, profiler, span
from ..profiler.statistics import DEVICE_STORAGE
from ..random import device_random
from ..types import Array
from .arena import Arena, Scratch
from .lower import Bindings, Call, Lowering
from .profile import label_of, recorded

__all__ = ["BoundBodies", "Observer", "Plan", "PlanMemory"]

Observer = Callable[[Step, Lowering, bool], None]
"""Called before (True) and after (False) each step of a plan that a monitor watches."""


class BoundBodies(Bodies, Protocol):
    """Subgraphs that are bound at the same time as the plan whose operators run them."""

    def begin(self, bindings: Bindings) -> None:
        """Drop everything that was bound to other arrays than those the plan is now bound to."""


@dataclasses.dataclass(frozen=True)
class PlanMemory:
    """Bytes that a plan needs, and bounds to compare them with.

    Attributes:
        arena: intermediate results, with buffer sharing.
        peak_live: the most bytes of them alive at one step, a lower bound.
        unshared: bytes of them without buffer sharing.
        scratch: temporary memory within steps, the largest of all plans that share the arena.
        misses: arrays allocated by the last pass because scratch was too small; 0 in steady state.
    """

    arena: int
    peak_live: int
    unshared: int
    scratch: int
    misses: int


@dataclasses.dataclass(frozen=True)
class _Pass:
    """What one pass runs.

    Attributes:
        steps: the steps, in order.
        calls: the closure of each step.
        chains: the same closures, grouped into as few calls as possible.
    """

    steps: Sequence[Step]
    calls: Sequence[Call]
    chains: Sequence[Chain]

    @cached_property
    def needs_scope(self) -> bool:
        """Whether any chain has to run inside the backend's scope, which takes time to enter."""
        return any(chain.needs_scope for chain in self.chains)

    def stepwise(self, wrap: Callable[[Step, Call], Call]) -> _Pass:
        """Return the pass with a call for each step, made by this function from the step's own."""
        calls = [wrap(step, call) for step, call in zip(self.steps, self.calls, strict=True)]
        return _Pass(self.steps, calls, [Chain(call) for call in calls])

    def step_reached(self, position: int) -> Step:
        """Return the step at which the chain at this position has stopped."""
        before = sum(chain.count for chain in self.chains[:position])
        stopped = self.chains[position]
        return self.steps[before + min(stopped.done(), stopped.count - 1)]


class Plan:
    """Executes a compiled program as a list of closures over fixed arrays.

    Args:
        compiled: the program.
        bindings: returns the bound arrays; called again when the arena's memory has moved.
        arena: shared with other plans that do not run at the same time.
        context: the device.
        check_kernels: compare every kernel with its reference.
        observer: called before and after each step.
        bodies: the compiled subgraphs of control-flow operators.
        backward_is_train: mode of the operators' backward, if it differs from the forward pass's.
    """

    def __init__(
        self,
        compiled: Compiled,
        bindings: Callable[[], Bindings],
        arena: Arena,
        context: Context,
        *,
        check_kernels: bool = False,
        observer: Observer | None = None,
        bodies: BoundBodies | None = None,
        backward_is_train: bool | None = None,
    ) -> None:
        self.compiled = compiled
        self._bodies = bodies
        self._bindings = bindings
        self._arena = arena
        self._check_kernels = check_kernels
        self._observer = observer
        self._scratch = Scratch(arena.backend, arena.scratch)
        is_train = compiled.program.is_train
        self._backward_is_train = is_train if backward_is_train is None else backward_is_train
        self._run, self._run_back = (
            Run(
                arena.backend.xp,
                mode,
                device_random(context),
                self._scratch.take,
                bodies,
                arena.backend.suppress,
                arena.backend,
            )
            for mode in (is_train, self._backward_is_train)
        )
        if compiled.memory is not None:
            arena.reserve(compiled.memory.nbytes, 0)
        # Scratchpads need a fixed address when kernels are bound. How much other scratch memory
        # steps need shows in the first run.
        kernels = [step.kernel for step in compiled.program.steps if step.kernel is not None]
        arena.reserve_scratch(max((one.scratchpad_bytes for one in kernels), default=0))
        self._misses = 0
        # Identifies this plan in the arena, where a reference to the plan would keep it alive.
        self._token = object()
        self._is_spent = False
        self._lower()

    @property
    def is_spent(self) -> bool:
        """Whether the forward pass must run again before backward; see ``arena.py``."""
        return self._is_spent and self._arena.owner is self._token

    @property
    def memory(self) -> PlanMemory:
        """What the plan needs."""
        shared = self.compiled.memory
        nbytes = sum(life.nbytes for life in self.compiled.lives.values())
        return PlanMemory(
            arena=shared.nbytes if shared else nbytes,
            peak_live=shared.peak_live if shared else nbytes,
            unshared=shared.unshared if shared else nbytes,
            scratch=self._arena.scratch.nbytes,
            misses=self._misses,
        )

    def forward(self) -> None:
        """Run the forward pass."""
        self._begin_forward()
        self._execute(self._forward)
        self._is_spent = False

    def timed_forward(self) -> list[tuple[Step, float]]:
        """Run the forward pass synchronously; return each step with its duration in seconds."""
        self._begin_forward()
        seconds: list[float] = []
        self._execute(self._forward.stepwise(lambda _, call: self._timed(call, seconds)))
        self._is_spent = False
        return list(zip(self._forward.steps, seconds, strict=True))

    def _timed(self, call: Call, seconds: list[float]) -> Call:
        def timed() -> Any:
            start = perf_counter()
            status = call()
            self._arena.backend.synchronize()
            seconds.append(perf_counter() - start)
            return status

        return timed

    def _begin_forward(self) -> None:
        if self._generation != self._arena.generation:
            self._lower()
        # Both before the first step runs, so that a pass that fails leaves nothing for backward.
        self._arena.owner = self._token
        self._is_spent = True
        if self._watch.poll():
            self._refresh()

    def backward(self, head_gradients: Sequence[Array | None]) -> None:
        """Run the backward pass of the forward pass that ran last.

        Args:
            head_gradients: arrays of the outputs' shapes, on any device; None if nothing reads
                them.

        Raises:
            StageError: the memory of the forward pass has been reused since.
        """
        if self._arena.owner is not self._token:
            raise StageError(
                "backward needs the values of this executor's last forward(is_train=True), which "
                "are gone: another executor that shares its memory has run since, or was bound; "
                "call forward(is_train=True) again before backward"
            )
        self._is_spent = True
        if self._watch.poll():
            self._refresh()
        for target, given in zip(self._head_gradients, head_gradients, strict=True):
            if target is not None:
                self._arena.backend.copy_into(target, given)
        self._execute(self._backward)

    def _refresh(self) -> None:
        """Recompute the cache entries of arrays that have changed."""
        try:
            with self._arena.backend.scope():
                for refresh in self._refreshes:
                    refresh()
        except BaseException:
            # ``poll`` will not tell of this change again, but some entries still lack it.
            self._watch.forget()
            raise

    def _execute(self, pass_: _Pass) -> None:
        if profiler.recorder is None:
            self._run_chains(pass_)
        else:
            self._record(pass_, profiler.recorder)

    def _run_chains(self, pass_: _Pass) -> None:
        scratch, remaining = self._scratch, iter(pass_.chains)
        try:
            if pass_.needs_scope:
                with self._arena.backend.scope():
                    _call_in_order(remaining)
            else:
                _call_in_order(remaining)
        except Exception as error:
            # The iterator knows how far the loop has come, which then need not count.
            stopped_at = len(pass_.chains) - length_hint(remaining) - 1
            reached = pass_.step_reached(stopped_at)
            unsupported = unsupported_dtype(error, str(reached))
            if unsupported is not None:
                raise unsupported from error
            error.add_note(f"while running {reached}")
            raise
        finally:
            # Even after a failure: some states may have been updated.
            for version in self._updated:
                version.bump()
        self._misses = scratch.misses
        if scratch.misses:
            self._arena.reserve_scratch(scratch.settle())

    def _record(self, pass_: _Pass, recorder: Recorder) -> None:
        """Run a pass and record it."""
        wait = self._arena.backend.synchronize
        is_backward = pass_ is self._backward
        if recorder.switches.symbolic:
            pass_ = pass_.stepwise(
                lambda step, call: partial(recorded, call, label_of(step), recorder, wait)
            )
        with span("api", f"Executor.{'backward' if is_backward else 'forward'}"):
            self._run_chains(pass_)
            wait()
        if recorder.switches.memory:
            arena = self._arena
            nbytes = arena.values.nbytes + arena.outputs.nbytes + arena.scratch.nbytes
            recorder.add_sample(DEVICE_STORAGE, f"Arena: {arena.context}", nbytes)
        recorder.flush_if_due()

    def _lower(self) -> None:
        self._scratch.forget()
        program, bindings = self.compiled.program, self._bindings()
        if self._bodies is not None:
            self._bodies.begin(bindings)
        lowering = Lowering(
            program,
            self.compiled.memory,
            bindings,
            self._arena,
            self._run,
            self._run_back,
            self._scratch,
            check_kernels=self._check_kernels,
        )
        self._forward = self._lowered(program.forward_steps, lowering)
        self._backward = self._lowered(program.backward_steps, lowering)
        for step in program.steps:
            if step.op.graph_names:
                # Compile bodies now, so that their errors are raised by bind and not by forward.
                gradients = lowering.arrays(step.in_grads) if step.is_backward else None
                step.op.prepare(self._run, lowering.arrays(step.inputs), gradients)
        self._refreshes = lowering.refreshes
        self._watch = Watch(v for refresh in lowering.refreshes for v in refresh.versions)
        may_update = program.is_train or self._backward_is_train
        self._updated = lowering.updated_versions() if may_update else ()
        self._head_gradients = lowering.arrays(tuple(program.head_gradients))
        self._generation = self._arena.generation

    def _lowered(self, steps: Iterable[Step], lowering: Lowering) -> _Pass:
        calls = {step: self._watched(step, lowering) for step in steps}
        run = {step: call for step, call in calls.items() if call is not None}
        chains = self._arena.backend.chained(list(run.values()))
        return _Pass(list(run), list(run.values()), chains)

    def _watched(self, step: Step, lowering: Lowering) -> Call | None:
        call, observer = lowering.call(step), self._observer
        if observer is None or call is None:
            return call

        def watched() -> None:
            observer(step, lowering, True)
            call()
            observer(step, lowering, False)

        return watched


def _call_in_order(chains: Iterable[Chain]) -> None:
    """Call each chain; raise the library's failure at the first that returns a status."""
    for chain in chains:
        status = chain.call()
        # Some closures are NumPy functions, which return their output.
        if status.__class__ is int and status:
            raise library_failure(status)
