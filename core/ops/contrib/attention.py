"""Products of multi-head attention on interleaved projections (Vaswani et al., 2017).

Projections are (length, batch, heads · parts · size): for each head, its queries, keys and values
(or those that the input has) follow one another. Attention has shape (batch · heads, queries,
keys).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import ClassVar

from ...errors import ShapeError
from ...types import Array, Shape
from ..attributes import attribute
from ..operator import Operator, Reads, Run
from ..precision import wide_backward, wide_forward
from ..registry import declares_attributes, register

__all__ = ["EncDecQK", "EncDecValAtt", "SelfAttQK", "SelfAttValAtt"]


@declares_attributes
class _Attention(Operator, abc.ABC):
    heads: int = attribute(minimum=1, doc="number of heads")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1) if len(self.input_names()) == 2 else (0,))

    def projection(self, name: str, shape: Shape | None, parts: int) -> Shape:
        """Check and return the shape of an input that holds projections."""
        shape = self.expect(name, shape, (0, 0, 0))
        if shape[2] % (self.heads * parts):
            raise ShapeError(
                f"{name} has shape {shape}; expected a multiple of {self.heads} heads times "
                f"{parts} parts along the last axis"
            )
        return shape

    def part(self, array: Array, parts: int, index: int) -> Array:
        """Return a view of one part (queries, keys or values) of all heads, (batch, heads, length,
        size)."""
        length, batch, width = array.shape
        split = array.reshape(length, batch, self.heads, parts, width // (self.heads * parts))
        view: Array = split[:, :, :, index].transpose(1, 2, 0, 3)
        return view

    def by_head(self, attention: Array) -> Array:
        """Return attention as (batch, heads, queries, keys)."""
        return attention.reshape(-1, self.heads, *attention.shape[1:])


class _Scores(_Attention):
    """Queries times keys, divided by the square root of the head size."""

    def operands(self, arrays: Sequence[Array | None]) -> list[Array | None]:
        """Return views of the queries and keys in the inputs, or in their gradients."""
        raise NotImplementedError

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        queries, keys = self.operands(inputs)
        assert queries is not None
        assert keys is not None
        scores = run.xp.matmul(queries, keys.swapaxes(2, 3))
        scores /= math.sqrt(queries.shape[3])
        outputs[0][...] = scores.reshape(outputs[0].shape)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, (queries, keys) = run.xp, self.operands(inputs)
        assert queries is not None
        assert keys is not None
        grad = self.by_head(out_grads[0]) / math.sqrt(queries.shape[3])
        # The values have no part in the scores, but share an input with the keys.
        if len(in_grads) == 1 and in_grads[0] is not None:
            in_grads[0].fill(0)
        query_grad, key_grad = self.operands(in_grads)
        if query_grad is not None:
            query_grad[...] = xp.matmul(grad, keys)
        if key_grad is not None:
            if len(in_grads) == 2 and in_grads[1] is not None:
                in_grads[1].fill(0)
            key_grad[...] = xp.matmul(grad.swapaxes(2, 3), queries)


@register("_contrib_interleaved_matmul_selfatt_qk")
class SelfAttQK(_Scores):
    """Self-attention scores (batch · heads, length, length), from the interleaved queries, keys and
    values of a sequence (length, batch, heads · 3 · size)."""

    names_outputs: ClassVar[bool] = True

    def input_names(self) -> tuple[str, ...]:
        return ("queries_keys_values",)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.projection("queries_keys_values", inputs[0], 3)
        expected = (data[1] * self.heads, data[0], data[0])
        return [data], [self.expect("output", outputs[0], expected)]

    def operands(self, arrays: Sequence[Array | None]) -> list[Array | None]:
        return [None if arrays[0] is None else self.part(arrays[0], 3, i) for i in (0, 1)]


@register("_contrib_interleaved_matmul_encdec_qk")
class EncDecQK(_Scores):
    """Attention scores (batch · heads, queries, keys), from a decoder's queries (queries, batch,
    heads · size) and the interleaved keys and values of an encoder (keys, batch, heads · 2 · size).
    """

    names_outputs: ClassVar[bool] = True

    def input_names(self) -> tuple[str, ...]:
        return ("queries", "keys_values")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        queries = self.projection("queries", inputs[0], 1)
        keys = self.projection("keys_values", inputs[1], 2)
        keys = self.expect("keys_values", keys, (0, queries[1], 2 * queries[2]))
        queries = (queries[0], keys[1], keys[2] // 2)
        expected = (queries[1] * self.heads, queries[0], keys[0])
        return [queries, keys], [self.expect("output", outputs[0], expected)]

    def operands(self, arrays: Sequence[Array | None]) -> list[Array | None]:
        queries, keys = arrays
        return [
            None if queries is None else self.part(queries, 1, 0),
            None if keys is None else self.part(keys, 2, 0),
        ]


class _Values(_Attention):
    """Attention times values: (queries, batch, heads · size)."""

    parts: ClassVar[int]
    projections: ClassVar[str]

    def input_names(self) -> tuple[str, ...]:
        return (self.projections, "attention")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.projection(self.projections, inputs[0], self.parts)
        attention = self.expect("attention", inputs[1], (data[1] * self.heads, 0, data[0]))
        if self.parts == 3:
            attention = self.expect("attention", attention, (0, data[0], 0))
        expected = (attention[1], data[1], data[2] // self.parts)
        return [data, attention], [self.expect("output", outputs[0], expected)]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        values = self.part(inputs[0], self.parts, self.parts - 1)
        weighted = run.xp.matmul(self.by_head(inputs[1]), values)
        self.part(outputs[0], 1, 0)[...] = weighted

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad = run.xp, self.part(out_grads[0], 1, 0)
        data_grad, attention_grad = in_grads
        if data_grad is not None:
            data_grad.fill(0)
            attention = self.by_head(inputs[1])
            target = self.part(data_grad, self.parts, self.parts - 1)
            target[...] = xp.matmul(attention.swapaxes(2, 3), grad)
        if attention_grad is not None:
            values = self.part(inputs[0], self.parts, self.parts - 1)
            found = xp.matmul(grad, values.swapaxes(2, 3))
            attention_grad[...] = found.reshape(attention_grad.shape)


@register("_contrib_interleaved_matmul_selfatt_valatt")
class SelfAttValAtt(_Values):
    """Values weighted by self-attention (length, batch, heads · size), from the interleaved
    queries, keys and values of a sequence (length, batch, heads · 3 · size)."""

    names_outputs: ClassVar[bool] = True

    parts: ClassVar[int] = 3
    projections: ClassVar[str] = "queries_keys_values"


@register("_contrib_interleaved_matmul_encdec_valatt")
class EncDecValAtt(_Values):
    """Values weighted by attention (queries, batch, heads · size), from the interleaved keys and
    values of an encoder (keys, batch, heads · 2 · size)."""

    names_outputs: ClassVar[bool] = True

    parts: ClassVar[int] = 2
    projections: ClassVar[str] = "keys_values"
