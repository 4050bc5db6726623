"""The iterations of a loop over a subgraph, in the forward and the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import StageError
from ..types import Array
from .operator import Run
from .subgraph import Bodies, Body, Tape

__all__ = ["BackwardLoop", "Loop", "bodies_of", "random_position", "rerun"]

Locations = tuple[int, ...]


def bodies_of(run: Run) -> Bodies:
    """Return the object that runs subgraphs.

    Raises:
        StageError: the operator is run outside of an executor.
    """
    if run.bodies is None:
        raise StageError("loops and branches over subgraphs run in executors only: bind the symbol")
    return run.bodies


class Loop:
    """The forward pass of a loop.

    Args:
        run: the operator's environment.
        body: the repeated subgraph, compiled.
        locations: indices of the body's inputs that are states; their successors are its last
            outputs.
        use: the hidden output to which the tape belongs.

    Attributes:
        states: the states at the start of the next iteration.
    """

    def __init__(self, run: Run, body: Body, locations: Locations, use: Array) -> None:
        self._run = run
        self._body = body
        self.states = [body.inputs[location] for location in locations]
        self._tape = bodies_of(run).tape(use) if bodies_of(run).has_backward else None

    def begin(self, states: Sequence[Array]) -> None:
        """Set the states of the first iteration."""
        for target, state in zip(self.states, states, strict=True):
            target[...] = state
        if self._tape is not None:
            self._tape.begin()

    def step(self, outputs: Sequence[Array], iteration: int) -> None:
        """Run the body, and write its slice of each stacked output."""
        # Recorded before they are overwritten, for ``backward`` to repeat this iteration.
        if self._tape is not None:
            states = (*self.states, *self._body.updated)
            self._tape.record(states, random_position(self._run, self._body))
        self._body.forward()
        found = self._body.outputs
        for output, value in zip(outputs, found, strict=False):
            output[iteration] = value
        for state, value in zip(self.states, found[len(outputs) :], strict=True):
            state[...] = value

    def end(self, outputs: Sequence[Array]) -> None:
        """Write the final states."""
        for output, state in zip(outputs, self.states, strict=True):
            output[...] = state


class BackwardLoop:
    """The backward pass of a loop, from the last iteration to the first.

    Args:
        run, locations, use: as for ``Loop``.
        body: the repeated subgraph, compiled with its backward pass.
        out_grads: gradients of the final states.

    Attributes:
        tape: what the forward pass recorded.
    """

    def __init__(
        self,
        run: Run,
        body: Body,
        locations: Locations,
        use: Array,
        out_grads: Sequence[Array],
    ) -> None:
        self.tape: Tape = bodies_of(run).tape(use)
        self._run = run
        self._body = body
        self._locations = locations
        self._gradients = list(out_grads)

    def step(self, out_grads: Sequence[Array], iteration: int) -> None:
        """Rerun an iteration forward and then backward, given the gradients of the stacked
        outputs."""
        body, states = self._body, self.tape.states(iteration)
        count = len(self._locations)
        for location, state in zip(self._locations, states[:count], strict=True):
            body.inputs[location][...] = state
        rerun(self._run, body, self.tape.random[iteration], states[count:])
        body.backward([*(gradient[iteration] for gradient in out_grads), *self._gradients])
        for index, location in enumerate(self._locations):
            found = body.gradients[location]
            # Integers have no gradient, even if one was passed for the final state.
            self._gradients[index] = (
                self._run.xp.zeros_like(self._gradients[index]) if found is None else found
            )

    def end(self, in_grads: Sequence[Array | None]) -> None:
        """Write the gradients of the initial states."""
        for target, gradient in zip(in_grads, self._gradients, strict=True):
            if target is not None:
                target[...] = gradient


def random_position(run: Run, body: Body) -> Any:
    """Return the random generator's state if the body draws random numbers, else None."""
    return run.random.get_state() if body.uses_random else None


def rerun(run: Run, body: Body, position: Any, updated: Sequence[Array]) -> None:
    """Rerun a body with the random numbers of its first run, and the values at its start of what it
    updates; both remain as they are now."""
    present = random_position(run, body)
    values = [array.copy() for array in body.updated]
    try:
        if position is not None:
            run.random.set_state(position)
        _assign(body.updated, updated)
        body.forward()
    finally:
        if position is not None:
            run.random.set_state(present)
        _assign(body.updated, values)


def _assign(targets: Sequence[Array], values: Sequence[Array]) -> None:
    for target, value in zip(targets, values, strict=True):
        target[...] = value
