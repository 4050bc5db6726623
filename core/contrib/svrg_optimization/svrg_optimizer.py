"""What a store runs for ``SVRGModule``: the script's optimizer, and sums of full gradients."""

from __future__ import annotations

import inspect
from typing import Any

from ...ndarray import NDArray
from ...optimizer import Optimizer, create, register

__all__ = ["FULL", "_AssignmentOptimizer", "_SVRGOptimizer"]

FULL = "_full"
"""The name of a parameter's full gradient in a store ends in it."""


@register
class _AssignmentOptimizer(Optimizer):
    """Makes the gradient the weight, so that a store keeps what was pushed last."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Assign the gradient."""
        weight[:] = grad


@register
class _SVRGOptimizer(Optimizer):
    """Updates parameters by another optimizer, and full gradients by assignment.

    Args:
        default_optimizer: the optimizer of the parameters, or its name.
        **kwargs: arguments of that optimizer; those that all have are taken here, too.
    """

    def __init__(self, default_optimizer: Optimizer | str, **kwargs: Any) -> None:
        common = inspect.signature(Optimizer.__init__).parameters
        super().__init__(**{name: value for name, value in kwargs.items() if name in common})
        if isinstance(default_optimizer, str):
            default_optimizer = create(default_optimizer, **kwargs)
        self.default_opt = default_optimizer
        self.aux_opt = create(_AssignmentOptimizer.__name__)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the state of one parameter or full gradient."""
        return self._optimizer_of(index).create_state(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one parameter, or assign one full gradient."""
        self._optimizer_of(index).update(index, weight, grad, state)

    def _optimizer_of(self, index: Any) -> Optimizer:
        name = index if isinstance(index, str) else self.idx2name[index]
        return self.aux_opt if name.endswith(FULL) else self.default_opt
