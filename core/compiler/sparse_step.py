"""An operator in a plan that works directly on sparse inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import Operator, Reads, Run
from ..ops.sparse_kernel import SparseKernel
from ..types import DType, Shape

__all__ = ["SparseStep"]


class SparseStep(Operator):
    """An operator of the graph with the kernel for the storage types of its inputs.

    Passes treat it as an opaque operator: they know what it reads, and nothing else.

    Attributes:
        operator: the graph's operator.
        kernel: the sparse kernel.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, operator: Operator, kernel: SparseKernel) -> None:
        self.operator = operator
        self.kernel = kernel
        self.names = (f"_sparse_{operator.names[0]}",)  # type: ignore[misc]
        self.is_costly = True  # type: ignore[misc]

    def input_names(self) -> tuple[str, ...]:
        return self.operator.input_names()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return self.operator.infer_shape(inputs, outputs)

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return self.operator.infer_type(inputs, outputs)

    def backward_reads(self) -> Reads:
        return self.operator.backward_reads()

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return self.operator.gradient_inputs(count)

    def forward(self, run: Run, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.kernel.forward(run, inputs, outputs)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        in_grads: Sequence[Any],
    ) -> None:
        assert self.kernel.backward is not None
        self.kernel.backward(run, out_grads, inputs, outputs, in_grads)
