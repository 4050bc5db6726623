"""Which plans an executor has: the modes of the forward pass and of the backward pass after it."""

from __future__ import annotations

import dataclasses

from ..compiler.trace import Graph

__all__ = ["Mode", "draws_numbers", "has_modal_backward"]


@dataclasses.dataclass(frozen=True)
class Mode:
    """Identifies one of an executor's plans.

    Attributes:
        is_train: mode of the operators' forward.
        has_backward: whether there is a backward pass.
        is_watched: whether a monitor is called around each step.
        backward_is_train: mode of the operators' backward, if it differs from ``is_train``.
    """

    is_train: bool
    has_backward: bool
    is_watched: bool = False
    backward_is_train: bool | None = None

    @property
    def name(self) -> str:
        """The plan's name in reports."""
        kind = "training" if self.is_train else "inference"
        if self.has_backward is not self.is_train:
            kind += " with gradients" if self.has_backward else " without gradients"
        if self.backward_is_train is not None:
            kind += f" of {'training' if self.backward_is_train else 'inference'}"
        return f"{kind}, watched" if self.is_watched else kind


def has_modal_backward(graph: Graph) -> bool:
    """Return whether the graph has an operator whose gradient differs in training and inference."""
    return any(node.op is not None and node.op.backward_reads_mode for node in graph.nodes)


def draws_numbers(graph: Graph) -> bool:
    """Return whether the graph has an operator that draws random numbers."""
    return any(node.op is not None and node.op.uses_random for node in graph.nodes)
