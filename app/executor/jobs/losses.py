"""The loss that a network's output layers define."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.capabilities.arrays import CAST
from core.capabilities.kinds import is_of
from core.graph.nodes import Node
from core.ndarray import NDArray
from core.ops.implied_loss import ImpliedLoss
from core.symbol import Symbol

__all__ = ["LossMeter"]


@dataclass(frozen=True, slots=True)
class _Head:
    """An output layer whose loss is known."""

    output: str
    label: str | None
    loss: ImpliedLoss


class LossMeter:
    """Accumulates the loss over batches.

    Without an output whose loss is known there is none; ``update`` then only checks that the
    outputs are finite.

    Attributes:
        last: mean loss per example of the last batch; None without a known loss.
    """

    def __init__(self, symbol: Symbol) -> None:
        self._heads = _find_heads(symbol)
        self.total = 0.0
        self.examples = 0
        self.last: float | None = None

    @property
    def is_known(self) -> bool:
        """True if the symbol has a loss layer that is known here."""
        return bool(self._heads)

    @property
    def mean(self) -> float | None:
        """Mean loss per example since ``reset``; None without a known loss or examples."""
        return self.total / self.examples if self._heads and self.examples else None

    def reset(self) -> None:
        """Discard what was accumulated."""
        self.total, self.examples = 0.0, 0

    def update(
        self, labels: Mapping[str, NDArray], outputs: Mapping[str, NDArray], examples: int
    ) -> bool:
        """Add a batch; return False if its loss, or an output, is NaN or infinite."""
        if not self._heads:
            return all(bool(np.isfinite(output.asnumpy()).all()) for output in outputs.values())
        loss = 0.0
        for head in self._heads:
            output = outputs[head.output].asnumpy()
            label = labels.get(head.label or "")
            if head.label is None or label is not None:
                loss += head.loss(output, None if label is None else label.asnumpy())
        self.last = loss
        self.total += loss * examples
        self.examples += examples
        return math.isfinite(loss)

    def get_state(self) -> dict[str, Any]:
        """Return the sums as plain data."""
        return {"total": self.total, "examples": self.examples}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``get_state`` returned."""
        self.total, self.examples = state["total"], state["examples"]


def _find_heads(symbol: Symbol) -> list[_Head]:
    heads = []
    for name, (node, _) in zip(symbol.list_outputs(), symbol.heads, strict=True):
        loss = None if node.op is None else node.op.implied_loss()
        if loss is None:
            continue
        label = _label_of(node) if len(node.inputs) > 1 else None
        if label is not None or len(node.inputs) == 1:
            heads.append(_Head(name, label, loss))
    return heads


def _label_of(node: Node) -> str | None:
    """Return the variable that a loss layer's label is, reshaped or not; None for anything else."""
    source = node.inputs[1].node
    while source.op is not None and (source.op.is_view() or is_of(source.op, CAST)):
        source = source.inputs[0].node
    return source.name if source.is_variable else None
