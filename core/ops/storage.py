"""Storage types, and the operators that change them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register
from .rows import Rows
from .sparse_kernel import SparseKernel
from .storage_rules import of_first

__all__ = [
    "DECLARED_STORAGE",
    "STORAGE_TYPES",
    "CastStorage",
    "SparseRetain",
]

STORAGE_TYPES = ("default", "row_sparse", "csr")
DECLARED_STORAGE = {"0": "default", "1": "row_sparse", "2": "csr"}
"""Storage types by the value of a variable's attribute ``__storage_type__``."""


@register("cast_storage", "_sparse_cast_storage")
class CastStorage(Operator):
    """Convert an array to another storage type."""

    stype: str = attribute(choices=STORAGE_TYPES, doc="the storage type")

    def output_storage(self, inputs: Sequence[str]) -> str:
        return self.stype

    def backward_reads(self) -> Reads:
        return Reads()

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        run.xp.copyto(in_grads[0], out_grads[0])


@register("_sparse_retain")
class SparseRetain(Operator):
    """Keep the rows of an array with the given indices (n,); all others become 0.

    Indices of any dtype are truncated to integers, and clipped to the range.
    """

    def output_storage(self, inputs: Sequence[str]) -> str:
        return of_first(inputs)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        return _RETAIN if tuple(inputs) == ("row_sparse", "default") else None

    def input_names(self) -> tuple[str, ...]:
        return ("data", "indices")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        return [data, inputs[1]], [data]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = self.expect_dtype("data", inputs[0], outputs[0])
        return [data, inputs[1]], [data]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(1,))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._retain(run, inputs[0], inputs[1], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        self._retain(run, out_grads[0], inputs[1], in_grads[0])

    @staticmethod
    def _retain(run: Run, data: Array, indices: Array, out: Array) -> None:
        rows = run.scratch(indices.shape, "int64")
        run.xp.copyto(rows, indices, casting="unsafe")
        run.xp.clip(rows, 0, data.shape[0] - 1, out=rows)
        out.fill(0)
        out[rows] = data[rows]


def _retain_rows(run: Run, inputs: Sequence[Any], outputs: Sequence[Rows]) -> None:
    wanted = _wanted_rows(run, inputs[1], outputs[0])
    outputs[0].keep(wanted, inputs[0].read(run.xp, wanted))


def _retain_rows_backward(
    run: Run,
    out_grads: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    in_grads: Sequence[Any],
) -> None:
    grad, target = out_grads[0], in_grads[0]
    wanted = _wanted_rows(run, inputs[1], target)
    values = grad.read(run.xp, wanted) if isinstance(grad, Rows) else grad[wanted]
    target.add_ordered(run.xp, wanted, values)


def _wanted_rows(run: Run, indices: Array, like: Rows) -> Array:
    rows = run.xp.clip(indices.astype("int64"), 0, like.shape[0] - 1)
    return run.xp.unique(rows)


_RETAIN = SparseKernel(
    stored=(0,),
    output="row_sparse",
    forward=_retain_rows,
    backward=_retain_rows_backward,
    gradients={"default": ("row_sparse", None), "row_sparse": ("row_sparse", None)},
)
