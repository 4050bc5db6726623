"""The stages of a layer in MXNet's oneDNN graphs, parsed from its subgraph."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeGuard

from ...capabilities import layers
from ...capabilities.functions import Arithmetic
from ...capabilities.kinds import Kind
from ...errors import AttributeValueError
from ..norm import BatchNorm
from ..operator import Operator
from ..subgraph import Subgraph

__all__ = ["Stages"]


@dataclasses.dataclass
class Stages:
    """A layer and its fused stages, in this order.

    Attributes:
        layer: Convolution or FullyConnected.
        norm: the batch norm; None if there is none, as for the attributes below.
        activation: the activation before the addition, or the only one.
        has_sum: whether the last tensor, a residual, is added.
        last_activation: the activation after the addition.
    """

    layer: Any
    norm: BatchNorm | None = None
    activation: Operator | None = None
    has_sum: bool = False
    last_activation: Operator | None = None

    @classmethod
    def of(cls, graph: Subgraph, layer: Kind[Any]) -> Stages:
        """Parse a subgraph.

        Args:
            graph: a chain that begins with a layer; its variables are the inputs of the layer,
                those of the batch norm, and the residual, in this order.
            layer: kind of its first operator.

        Raises:
            AttributeValueError: the graph has another form.
        """
        first, *others = graph.applications
        names = tuple(one.operator.names[0] for one in graph.applications)
        if first.operator.kind is not layer or graph.output_count != 1:
            raise AttributeValueError(
                f"its subgraph is {' > '.join(names)}; expected one that begins with a "
                f"{layer.name} and has one output"
            )
        stages, variables = cls(first.operator), len(graph.input_names)
        expected = [(number, 0) for number in range(len(first.operator.input_names()))]
        _check(first.inputs, expected, names[0])
        used = len(expected)
        for number, (operator, inputs) in enumerate(others):
            chain = (variables + number, 0)
            new = len(operator.input_names()) - 1
            _check(inputs, [chain, *((used + i, 0) for i in range(new))], operator.names[0])
            stages._add(operator, names)
            used += new
        return stages

    def _add(self, operator: Operator, names: tuple[str, ...]) -> None:
        is_function = _is_function(operator)
        is_sum = operator.is_elementwise() and operator.arithmetic() is Arithmetic.ADD
        if _is_norm(operator) and not (self.norm or self.activation or self.has_sum):
            self.norm = operator
        elif is_sum and not self.has_sum:
            self.has_sum = True
        elif is_function and self.has_sum and self.last_activation is None:
            self.last_activation = operator
        elif is_function and not self.has_sum and self.activation is None:
            self.activation = operator
        else:
            raise AttributeValueError(
                f"its subgraph is {' > '.join(names)}; expected a layer with at most a batch norm, "
                "a function of each element, elemwise_add and another function of each element"
            )

    @property
    def end(self) -> Operator | None:
        """The activation that computes the output, or None."""
        return self.last_activation if self.has_sum else self.activation

    @property
    def ends_above_zero(self) -> bool:
        """Whether no output is below 0: if it is calibrated, MXNet makes it uint8."""
        return self.end is not None and self.end.is_nonnegative()

    def tensor_names(self) -> tuple[str, ...]:
        """Names of the inputs, as in MXNet."""
        names: tuple[str, ...] = self.layer.input_names()
        if self.norm is not None:
            names += ("gamma", "beta", "mean", "var")
        return (*names, "sum") if self.has_sum else names


def _is_norm(operator: Operator) -> TypeGuard[BatchNorm]:
    return operator.kind is layers.BATCH_NORM


def _is_function(operator: Operator) -> bool:
    return operator.is_elementwise() and len(operator.input_names()) == 1


def _check(inputs: tuple[tuple[int, int], ...], expected: list[tuple[int, int]], name: str) -> None:
    if list(inputs) != expected:
        raise AttributeValueError(
            f"its subgraph is not a chain at {name}: the inputs are values {list(inputs)}, "
            f"expected {expected} (variables count first, in the order of the layer's inputs)"
        )
