"""Which numbers the labels of a module may hold, where they name classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.module import BucketShapes, InputDesc
from app.errors.tree import Invalid
from core.capabilities.arrays import CAST
from core.capabilities.kinds import is_of
from core.graph.infer import infer_graph
from core.graph.nodes import Node
from core.ops.class_labels import class_labels
from core.symbol import Symbol
from core.types import to_dtype

__all__ = ["ClassRange", "class_ranges"]


@dataclass(frozen=True, slots=True)
class ClassRange:
    """The numbers that a label may hold.

    Attributes:
        label: name of the label.
        classes: their number; they count from 0.
        ignored: a number that is allowed as well; None for none.
        layer: name of the operator that takes the label.
    """

    label: str
    classes: int
    ignored: float | None
    layer: str

    def check(
        self,
        values: npt.NDArray[Any],
        field: str,
        where: str,
        numbers: Sequence[int] | npt.NDArray[np.intp],
    ) -> None:
        """Raise Invalid for the first label that names no class.

        Args:
            values: labels, with a row per example.
            field: that they were sent for.
            where: they are from.
            numbers: of their rows there.
        """
        allowed: npt.NDArray[np.bool_] = (values >= 0) & (values < self.classes)
        if self.ignored is not None:
            allowed |= values == self.ignored
        if allowed.all():
            return
        row = int(np.argmin(allowed.reshape(len(allowed), -1).all(axis=1)))
        value = np.ravel(values[row])[int(np.argmin(np.ravel(allowed[row])))]
        also = "" if self.ignored is None else f", or {self.ignored:g} for what is to be ignored"
        raise Invalid(
            field,
            f"label {float(value):g} in row {numbers[row]} of {where}",
            f"0 to {self.classes - 1}, the {self.classes} classes of {self.layer!r}{also}",
            "classes count from 0: subtract the lowest label from all, or give that layer more "
            "outputs",
        )


def class_ranges(symbol: Symbol, shapes: BucketShapes) -> list[ClassRange]:
    """Return the ranges of the labels of a symbol that is bound with these shapes."""
    labels = {one.name for one in shapes.label_shapes}
    if not labels:
        return []
    arguments = set(symbol.list_arguments())
    inputs = _used((*shapes.data_shapes, *shapes.label_shapes), arguments)
    dtypes = {name: to_dtype(one.dtype) for name, one in inputs.items()}
    specs = infer_graph(symbol.heads, {name: one.shape for name, one in inputs.items()}, dtypes)
    found = []
    for node in specs.nodes:
        if node.op is None or len(node.inputs) != 2 or (label := _label_of(node)) not in labels:
            continue
        data, given = (specs.shape(entry) for entry in node.inputs)
        named = None if data is None or given is None else class_labels(node.op, data, given)
        if named is not None:
            found.append(ClassRange(label, named.classes, named.ignored, node.name))
    return found


def _used(inputs: Iterable[InputDesc], arguments: set[str]) -> Mapping[str, InputDesc]:
    return {one.name: one for one in inputs if one.name in arguments}


def _label_of(node: Node) -> str:
    """Return the variable that an operator's second input is, reshaped or cast or neither."""
    source = node.inputs[1].node
    while source.op is not None and (source.op.is_view() or is_of(source.op, CAST)):
        source = source.inputs[0].node
    return source.name if source.is_variable else ""
