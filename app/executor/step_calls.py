"""Handlers of the step calls."""

from __future__ import annotations

from collections.abc import Callable

from app.executor.modules.randomness import RandomStreams
from app.executor.modules.stepping import Stepper
from app.link import calls
from app.link.protocols import Answer, Arrays

__all__ = ["StepCalls"]


class StepCalls:
    """Answers step calls, each by the method of the same name."""

    def __init__(self, stepper: Callable[[str], Stepper], random: RandomStreams) -> None:
        """Prepare.

        Args:
            stepper: returns the stepper of a module; raises HostError.
            random: entered before passes that may draw random numbers.
        """
        self._stepper = stepper
        self._random = random

    def forward(self, call: calls.Forward, tensors: Arrays) -> Answer:
        """Run a forward pass."""
        self._random.enter(call.module)
        return self._stepper(call.module).forward(call, tensors)

    def backward(self, call: calls.Backward, tensors: Arrays) -> Answer:
        """Run a backward pass."""
        self._random.enter(call.module)
        return self._stepper(call.module).backward(call, tensors)

    def update(self, call: calls.Update, tensors: Arrays) -> Answer:
        """Update the parameters."""
        self._random.enter(call.module)
        return self._stepper(call.module).update(call)

    def get_outputs(self, call: calls.GetOutputs, tensors: Arrays) -> Answer:
        """Return the outputs of the last pass."""
        return {}, self._stepper(call.module).outputs()

    def get_statistics(self, call: calls.GetStatistics, tensors: Arrays) -> Answer:
        """Return statistics of arrays."""
        return {"statistics": self._stepper(call.module).statistics(call.pattern)}, {}

    def get_input_grads(self, call: calls.GetInputGrads, tensors: Arrays) -> Answer:
        """Return the gradients of the inputs."""
        return {}, self._stepper(call.module).input_grads()

    def get_states(self, call: calls.GetStates, tensors: Arrays) -> Answer:
        """Return the states."""
        return {}, self._stepper(call.module).states()

    def set_states(self, call: calls.SetStates, tensors: Arrays) -> Answer:
        """Set the states."""
        self._stepper(call.module).set_states(call, tensors)
        return {}, {}
