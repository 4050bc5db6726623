"""The optimizers of stores for ``SVRGModule``: the script's own, and one for full gradients."""

from __future__ import annotations

import inspect
from typing import Any

from ...ndarray import NDArray
from ...optimizer import Optimizer, create, register

__all__ = ["FULL", "_AssignmentOptimizer", "_SVRGOptimizer"]

FULL = "_full"
"""Suffix of the keys of full gradients in a store."""


@register
class _AssignmentOptimizer(Optimizer):
    """Assigns the gradient to the weight, so that a store holds the value pushed last."""

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Assign the gradient."""
        weight[:] = grad


@register
class _SVRGOptimizer(Optimizer):
    """Updates parameters by another optimizer, and full gradients by assignment.

    Args:
        default_optimizer: the optimizer of the parameters, or its name.
        **kwargs: arguments of that optimizer; those common to all also apply to this one.
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
