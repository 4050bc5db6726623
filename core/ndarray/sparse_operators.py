"""Operators called on sparse arrays that compute from what is stored, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..backends import backend_of
from ..device import Context
from ..ops import Operator
from ..ops.csr import Csr
from ..ops.rows import Rows
from ..ops.sparse_kernel import SparseKernel
from ..profiler.recorder import profiler
from ..types import Array, is_half
from .execute import run_of, specs_of_outputs
from .handle import STORAGE_CLASSES
from .nodes import OperatorNode
from .tape import Entry, Origin, live, mode

__all__ = ["SparseNode", "apply_stored"]


class SparseNode(OperatorNode):
    """An operator that ran on what is stored."""

    __slots__ = ("kernel",)

    def __init__(
        self,
        op: Operator,
        kernel: SparseKernel,
        context: Context,
        parents: Sequence[Origin | None],
        inputs: Sequence[Any],
        output: Any,
    ) -> None:
        super().__init__(op, context, parents, inputs, [output])
        self.kernel = kernel

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Any]:
        """Run the kernel's backward."""
        backend, kinds = backend_of(self.context), self.kernel.gradients["default"]
        in_grads: list[Any] = [None] * len(self.inputs)
        for index, (x, parent) in enumerate(zip(self.inputs, self.parents, strict=True)):
            if parent is not None:
                by_rows = kinds[index] == "row_sparse"
                in_grads[index] = (Rows if by_rows else backend.empty)(x.shape, x.dtype)
        assert self.kernel.backward is not None
        with backend.scope():
            run = run_of(self.context, mode.training)
            self.kernel.backward(run, out_grads, self.inputs, self.outputs, in_grads)
        return in_grads

    def as_dense(self) -> OperatorNode:
        """Return the same computation on dense arrays, as its second derivative needs it."""
        xp = backend_of(self.context).xp
        inputs, outputs = (
            [one.dense(xp) if isinstance(one, (Rows, Csr)) else one for one in both]
            for both in (self.inputs, self.outputs)
        )
        return OperatorNode(self.op, self.context, self.parents, inputs, outputs)


def apply_stored(op: Operator, context: Context, inputs: Sequence[Any]) -> Any:
    """Run an operator on what is stored; None if it takes dense arrays alone.

    Args:
        op: parsed operator, of one output.
        context: device of the output.
        inputs: arrays of which one at least is sparse.
    """
    kernel = op.sparse_kernel([array.stype for array in inputs])
    if kernel is None or any(is_half(np.dtype(array.dtype)) for array in inputs):
        return None
    if any(array.context.device_type != context.device_type for array in inputs):
        return None
    parents = [live(array._origin) if mode.recording else None for array in inputs]
    if any(parent is not None and not kernel.has_gradient(i) for i, parent in enumerate(parents)):
        return None
    operands = [
        array.container() if index in kernel.stored else array.dense()
        for index, array in enumerate(inputs)
    ]
    ((shape, dtype),) = specs_of_outputs(op, tuple((x.shape, np.dtype(x.dtype)) for x in inputs))
    backend = backend_of(context)
    stored: Any = {"csr": Csr, "row_sparse": Rows}.get(kernel.output, backend.empty)(shape, dtype)
    recorder, started = profiler.recorder, perf_counter_ns()
    with backend.scope():
        kernel.forward(run_of(context, mode.training), operands, (stored,))
    if recorder is not None and recorder.switches.imperative:
        backend.synchronize()
        recorder.add_span("operator", op.names[0], started, perf_counter_ns())
    result: Any = STORAGE_CLASSES["default"](stored, context)
    if kernel.output != "default":
        result = STORAGE_CLASSES[kernel.output].zeros(shape, context, dtype)
        result.take(stored)
    if any(parent is not None for parent in parents):
        node = SparseNode(op, kernel, context, parents, operands, stored)
        result._origin = Entry(node, 0)
    return result
