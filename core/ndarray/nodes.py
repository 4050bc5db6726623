"""The computations a tape is made of: operators, indexing, copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends import backend_of
from ..device import Context
from ..errors import MXNetError
from ..ops import ALL, Operator
from ..ops.rows import Rows
from ..types import Array, DType, Shape
from .execute import run_of
from .tape import Node, Origin, mode

__all__ = ["CopyNode", "IndexNode", "OperatorNode"]


class OperatorNode(Node):
    """An operator that ran, with the arrays it read and wrote."""

    __slots__ = ("inputs", "op", "outputs")

    def __init__(
        self,
        op: Operator,
        context: Context,
        parents: Sequence[Origin | None],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
    ) -> None:
        super().__init__(context, parents, len(outputs))
        self.op = op
        self.inputs = list(inputs)
        self.outputs = list(outputs)

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        """Run the operator's own backward; inputs that it does not differentiate get zeros."""
        op, backend = self.op, backend_of(self.context)
        differentiable, few_rows = op.gradient_inputs(len(self.inputs)), op.row_gradients()
        needs_every = op.needs_every_gradient()
        wanted: list[Array | None] = [None] * len(self.inputs)
        zeros: dict[int, Array] = {}
        with backend.scope():
            for index, (x, parent) in enumerate(zip(self.inputs, self.parents, strict=True)):
                if parent is None and not (needs_every and index in differentiable):
                    continue
                if index in few_rows:
                    wanted[index] = Rows(x.shape, x.dtype)
                elif index in differentiable:
                    wanted[index] = backend.empty(x.shape, x.dtype)
                else:
                    zeros[index] = backend.xp.zeros(x.shape, x.dtype)
            if any(dx is not None for dx in wanted):
                self._run_backward(out_grads, wanted)
        return [zeros.get(index, dx) for index, dx in enumerate(wanted)]

    def _run_backward(
        self, out_grads: Sequence[Array | None], in_grads: list[Array | None]
    ) -> None:
        op, backend = self.op, backend_of(self.context)
        if not op.has_backward():
            raise MXNetError(
                f"operator {op.names[0]} has no gradient; detach() its input, or leave its result "
                "out of what backward() is called on"
            )
        reads = op.backward_reads()
        heads = [
            backend.xp.zeros(y.shape, y.dtype) if dy is None else dy
            for y, dy in zip(self.outputs, out_grads, strict=True)
        ]
        op.backward(
            run_of(self.context, mode.training),
            heads,
            _only(self.inputs, reads.inputs),
            _only(self.outputs, reads.outputs),
            in_grads,
        )

    def forget(self) -> None:
        """Drop the arrays."""
        super().forget()
        self.inputs, self.outputs = [], []


class IndexNode(Node):
    """``y = x[key]``, a view or a copy, of the given shape."""

    __slots__ = ("is_advanced", "key", "shape", "source")

    def __init__(
        self,
        context: Context,
        parent: Origin,
        source: Array,
        key: Any,
        shape: Shape,
        *,
        is_advanced: bool,
    ) -> None:
        super().__init__(context, (parent,))
        self.source = source
        self.shape = shape
        self.key = key
        self.is_advanced = is_advanced

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        """Put the gradient where the elements came from; those taken twice get the sum."""
        backend = backend_of(self.context)
        (dy,) = out_grads
        assert dy is not None
        with backend.scope():
            dx = backend.xp.zeros(self.source.shape, self.source.dtype)
            # The result may have an axis more than NumPy's: a scalar has shape (1,) in MXNet.
            region = dx[self.key]
            dy = dy.reshape(region.shape)
            if self.is_advanced:
                backend.xp.add.at(dx, self.key, dy)
            else:
                dx[self.key] = dy
        return (dx,)

    def forget(self) -> None:
        """Drop the source."""
        super().forget()
        self.source = self.key = None


class CopyNode(Node):
    """A copy, to another array, device or dtype."""

    __slots__ = ("source", "target_context", "target_dtype")

    def __init__(
        self,
        context: Context,
        parent: Origin,
        source: Array,
        target_context: Context,
        target_dtype: DType,
    ) -> None:
        super().__init__(context, (parent,))
        self.source = source
        self.target_context = target_context
        self.target_dtype = target_dtype

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        """Copy the gradient back."""
        backend = backend_of(self.context)
        dx = backend.empty(self.source.shape, self.source.dtype)
        backend.copy_into(dx, out_grads[0])
        return (dx,)

    def forget(self) -> None:
        """Drop the source."""
        super().forget()
        self.source = None


def _only(arrays: Sequence[Array], indices: tuple[int, ...]) -> list[Array | None]:
    if ALL in indices:
        return list(arrays)
    return [array if i in indices else None for i, array in enumerate(arrays)]
