"""A compiled program bound to arrays: what runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import length_hint

from core.device import Context
from core.errors import StageError
from core.executor.arena import Arena, Scratch
from core.executor.compile import Compiled
from core.executor.ir import Step
from core.executor.lower import Bindings, Call, Lowering
from core.ops import Run
from core.random import device_random
from core.types import Array

__all__ = ["Observer", "Plan", "PlanMemory"]

Observer = Callable[[Step, Lowering, bool], None]
"""Called before (True) and after (False) each step of a plan that is watched."""


@dataclasses.dataclass(frozen=True)
class PlanMemory:
    """Bytes that a plan needs and what they would be.

    Attributes:
        arena: values that steps hand on, with sharing.
        peak_live: the most bytes of them alive at one step; no plan needs less.
        unshared: bytes of them without sharing.
        scratch: what steps use inside, the largest of all plans that share the arena.
        misses: arrays allocated by the last pass because scratch was too small; 0 in steady state.
    """

    arena: int
    peak_live: int
    unshared: int
    scratch: int
    misses: int


class Plan:
    """Closures over fixed arrays, in order.

    Args:
        compiled: the program.
        bindings: gives the bound arrays; asked again when the arena's memory has moved.
        arena: shared with other plans that do not run at the same time.
        context: the device.
        check_kernels: compare every kernel with its reference.
        observer: called around each step.
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
    ) -> None:
        self.compiled = compiled
        self._bindings = bindings
        self._arena = arena
        self._check_kernels = check_kernels
        self._observer = observer
        self._scratch = Scratch(arena.backend, arena.scratch)
        self._run = Run(
            arena.backend.xp,
            compiled.program.is_train,
            device_random(context),
            self._scratch.take,
        )
        if compiled.memory is not None:
            arena.reserve(compiled.memory.nbytes, 0)
        self._misses = 0
        # Stands for this plan in the arena, which would else keep it alive.
        self._token = object()
        self._lower()

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
        if self._generation != self._arena.generation:
            self._lower()
        self._arena.owner = self._token
        self._execute(self._forward_calls, 0)

    def backward(self, head_gradients: Sequence[Array | None]) -> None:
        """Run the backward pass of the forward pass that ran last.

        Args:
            head_gradients: arrays of the outputs' shapes, on any device; None where nothing reads
                them.

        Raises:
            StageError: memory of the forward pass has been used for something else since.
        """
        if self._arena.owner is not self._token:
            raise StageError(
                "backward needs the values of this executor's last forward(is_train=True), which "
                "are gone: a backward pass or another executor that shares its memory has run "
                "since; call forward(is_train=True) again before each backward"
            )
        self._arena.owner = None
        for target, given in zip(self._head_gradients, head_gradients, strict=True):
            if target is not None:
                self._arena.backend.copy_into(target, given)
        self._execute(self._backward_calls, self.compiled.program.forward_length)

    def _execute(self, calls: Sequence[Call], first: int) -> None:
        scratch = self._scratch
        scratch.begin()
        remaining = iter(calls)
        try:
            with self._arena.backend.scope():
                for call in remaining:
                    call()
        except Exception as error:
            position = first + len(calls) - length_hint(remaining) - 1
            error.add_note(f"while running {self.compiled.program.steps[position]}")
            raise
        self._misses = scratch.misses
        if scratch.misses:
            scratch.settle()

    def _lower(self) -> None:
        program = self.compiled.program
        lowering = Lowering(
            program,
            self.compiled.memory,
            self._bindings(),
            self._arena,
            self._run,
            self._scratch,
            check_kernels=self._check_kernels,
        )
        calls = [self._watched(step, lowering) for step in program.steps]
        self._forward_calls = calls[: program.forward_length]
        self._backward_calls = calls[program.forward_length :]
        self._head_gradients = lowering.arrays(tuple(program.head_gradients))
        self._generation = self._arena.generation

    def _watched(self, step: Step, lowering: Lowering) -> Call:
        call, observer = lowering.call(step), self._observer
        if observer is None:
            return call

        def watched() -> None:
            observer(step, lowering, True)
            call()
            observer(step, lowering, False)

        return watched
