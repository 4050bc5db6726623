"""Which operators give sparse arrays of sparse ones, and the operators about storage itself.

Everything is computed densely. An output that MXNet 1.9.1 gives as ``row_sparse`` or ``csr`` is
stored so afterwards; this module says which ones those are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = [
    "DECLARED_STORAGE",
    "STORAGE_TYPES",
    "CastStorage",
    "SparseRetain",
    "gradient_storage",
    "output_storage",
]

STORAGE_TYPES = ("default", "row_sparse", "csr")
DECLARED_STORAGE = {"0": "default", "1": "row_sparse", "2": "csr"}
"""Storage types by the attribute ``__storage_type__`` of variables."""

_KEEPS_ZEROS = [
    "BlockGrad",
    "_copy",
    "_div_scalar",
    "_mul_scalar",
    "abs",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "cbrt",
    "ceil",
    "clip",
    "degrees",
    "expm1",
    "fix",
    "floor",
    "log1p",
    "make_loss",
    "negative",
    "radians",
    "relu",
    "rint",
    "round",
    "sign",
    "sin",
    "sinh",
    "slice",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "zeros_like",
]
"""Operators of one array that give 0 for 0."""


def output_storage(op: Operator, inputs: Sequence[str]) -> str:
    """Return the storage type of an operator's outputs, from those of its inputs."""
    rule = _RULES.get(op.names[0])
    return "default" if rule is None else rule(op, inputs)


def gradient_storage(op: Any, inputs: Sequence[str], index: int) -> str:
    """Return the storage type of an input's gradient: ``row_sparse`` where it has few rows."""
    match op.names[0]:
        case "Embedding" | "_contrib_SparseEmbedding":
            few = index == 1 and op.sparse_grad
        case "dot":
            few = index == 1 and inputs[0] == "csr" and not (op.transpose_a or op.transpose_b)
        case "_square_sum" | "_sparse_retain":
            few = index == 0 and inputs[0] == "row_sparse"
        case _:
            few = False
    return "row_sparse" if few else "default"


def _first(op: Any, inputs: Sequence[str]) -> str:
    return inputs[0]


def _where_alike(op: Any, inputs: Sequence[str]) -> str:
    return inputs[0] if len(set(inputs)) == 1 else "default"


def _product(op: Any, inputs: Sequence[str]) -> str:
    sparse = set(inputs) - {"default"}
    return sparse.pop() if len(sparse) == 1 else "default"


def _sum_of_rows(op: Any, inputs: Sequence[str]) -> str:
    return "row_sparse" if set(inputs) == {"row_sparse"} else "default"


def _scaled_matrix(op: Any, inputs: Sequence[str]) -> str:
    return "csr" if tuple(inputs) == ("csr", "default") else "default"


def _dot(op: Any, inputs: Sequence[str]) -> str:
    left, right = inputs
    if left == "csr" and op.transpose_a:
        return "row_sparse"
    return "csr" if (left, right) == ("default", "csr") else "default"


def _square_sum(op: Any, inputs: Sequence[str]) -> str:
    return inputs[0] if op.axis == (1,) and op.keepdims else "default"


def _quadratic(op: Any, inputs: Sequence[str]) -> str:
    return "csr" if inputs[0] == "csr" and op.c == 0 else "default"


def _take(op: Any, inputs: Sequence[str]) -> str:
    return "csr" if inputs[0] == "csr" and op.axis == 0 and op.mode != "raise" else "default"


_RULES: dict[str, Callable[[Any, Sequence[str]], str]] = {
    **dict.fromkeys(_KEEPS_ZEROS, _first),
    **dict.fromkeys(
        ("_hypot", "_maximum", "_minimum", "elemwise_add", "elemwise_sub"), _where_alike
    ),
    **dict.fromkeys(("broadcast_div", "broadcast_mul"), _scaled_matrix),
    "_contrib_quadratic": _quadratic,
    "_sparse_retain": _first,
    "_square_sum": _square_sum,
    "add_n": _sum_of_rows,
    "cast_storage": lambda op, inputs: str(op.stype),
    "dot": _dot,
    "elemwise_mul": _product,
    "take": _take,
}


@register("cast_storage", "_sparse_cast_storage")
class CastStorage(Operator):
    """The same array in another storage type."""

    stype: str = attribute(choices=STORAGE_TYPES, doc="the storage type")

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
    """The rows of an array that are named; all others become 0."""

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
