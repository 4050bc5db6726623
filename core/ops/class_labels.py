"""How the labels of losses name classes: by numbers from 0."""

from __future__ import annotations

from typing import NamedTuple

from ..types import Shape, normalize_axis, shape_size
from .indexing import Pick
from .loss import SoftmaxCrossEntropy, SoftmaxOutput, SVMOutput
from .operator import Operator

__all__ = ["ClassLabels", "class_labels"]


class ClassLabels(NamedTuple):
    """The labels that an operator takes as its second input.

    Attributes:
        classes: how many there are.
        ignored: a number that is no class and is allowed as well; None for none.
    """

    classes: int
    ignored: float | None = None


def class_labels(op: Operator, data: Shape, label: Shape) -> ClassLabels | None:
    """Return how an operator's label names classes; None if it does not.

    Args:
        op: the operator.
        data, label: shapes of its inputs.
    """
    if data == label or len(data) < 2:
        return None  # probabilities
    if isinstance(op, SoftmaxOutput):
        ignored = op.ignore_label if op.use_ignore else None
        if op.multi_output:
            return ClassLabels(data[1], ignored)
        return ClassLabels(data[-1] if op.preserve_shape else shape_size(data[1:]), ignored)
    if isinstance(op, SVMOutput | SoftmaxCrossEntropy):
        return ClassLabels(data[-1])
    if isinstance(op, Pick) and op.axis is not None and op.mode == "clip":
        return ClassLabels(data[normalize_axis(op.axis, len(data))])
    return None
