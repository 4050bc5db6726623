"""The loss that a network's output layers define."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.graph.nodes import Node
from core.ndarray import NDArray
from core.symbol import Symbol

__all__ = ["LossMeter"]

HostArray = npt.NDArray[Any]
Rule = Callable[[Any, HostArray, HostArray], float]
"""The mean loss of a batch, from the operator, its output and its label."""

_SMALLEST_PROBABILITY = 1e-12
_ORDER_KEEPING = frozenset({"Reshape", "Flatten", "Cast", "BlockGrad", "_copy"})


@dataclass(frozen=True, slots=True)
class _Head:
    """An output that is a loss layer."""

    output: str
    label: str | None
    op: Any
    rule: Rule


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
                loss += head.rule(head.op, output, output if label is None else label.asnumpy())
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
        if node.op is None or node.op.names[0] not in _RULES:
            continue
        label = _label_of(node) if len(node.inputs) > 1 else None
        if label is not None or len(node.inputs) == 1:
            heads.append(_Head(name, label, node.op, _RULES[node.op.names[0]]))
    return heads


def _label_of(node: Node) -> str | None:
    """Return the variable that a loss layer's label is, reshaped or not; None for anything else."""
    source = node.inputs[1].node
    while source.op is not None and source.op.names[0] in _ORDER_KEEPING:
        source = source.inputs[0].node
    return source.name if source.is_variable else None


def _cross_entropy(op: Any, output: HostArray, label: HostArray) -> float:
    """Mean of ``-log p[label]`` over the labels that are not to be ignored."""
    probabilities = np.maximum(output, _SMALLEST_PROBABILITY)
    if label.shape == output.shape:
        return float(-(label * np.log(probabilities)).sum() / len(output))
    axis = 1 if op.multi_output else -1
    if not op.multi_output and not op.preserve_shape:
        probabilities = probabilities.reshape(len(output), -1)
    classes = probabilities.shape[axis]
    rows = np.moveaxis(probabilities, axis, -1).reshape(-1, classes)
    wanted = label.ravel().astype(np.int64)
    chosen = rows[np.arange(len(wanted)), np.clip(wanted, 0, classes - 1)]
    if op.use_ignore:
        chosen = chosen[wanted != int(op.ignore_label)]
    return float(-np.log(chosen).mean(dtype=np.float64)) if len(chosen) else 0.0


def _squared_error(op: Any, output: HostArray, label: HostArray) -> float:
    return float(np.square(output - label.reshape(output.shape)).mean(dtype=np.float64))


def _absolute_error(op: Any, output: HostArray, label: HostArray) -> float:
    return float(np.abs(output - label.reshape(output.shape)).mean(dtype=np.float64))


def _binary_cross_entropy(op: Any, output: HostArray, label: HostArray) -> float:
    label = label.reshape(output.shape)
    yes = np.log(np.maximum(output, _SMALLEST_PROBABILITY))
    no = np.log(np.maximum(1 - output, _SMALLEST_PROBABILITY))
    return float(-(label * yes + (1 - label) * no).mean(dtype=np.float64))


def _mean(op: Any, output: HostArray, label: HostArray) -> float:
    return float(output.mean(dtype=np.float64))


_RULES: Mapping[str, Rule] = {
    "SoftmaxOutput": _cross_entropy,
    "LinearRegressionOutput": _squared_error,
    "MAERegressionOutput": _absolute_error,
    "LogisticRegressionOutput": _binary_cross_entropy,
    "MakeLoss": _mean,
    "make_loss": _mean,
}
