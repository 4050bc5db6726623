"""Operators that select elements of their data by index arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..capabilities import layers
from ..capabilities.kinds import implements
from ..capabilities.quantized import QuantizedForm
from ..errors import ShapeError
from ..types import NO_ELEMENTS, Array, DType, Shape, merge_dtypes, normalize_axis, shape_size
from .attributes import attribute
from .lookup import (
    add_at,
    add_rows,
    axis_positions,
    read_at,
    row_positions,
    whole_indices,
    write_at,
    write_rows,
)
from .operator import Operator, Reads, Run
from .registry import register
from .rows import Rows
from .sparse_kernel import SparseKernel

__all__ = [
    "BatchTake",
    "Embedding",
    "FillElement",
    "GatherNd",
    "GatherNdGradient",
    "OneHot",
    "Pick",
    "ScatterNd",
    "SparseEmbedding",
    "Take",
]

_FLOAT32 = np.dtype("float32")
_INT32 = np.dtype("int32")


class _Indexing(Operator):
    """Base: one input is data; the other holds indices of any dtype and gets no gradient."""

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = merge_dtypes(inputs[0], outputs[0])
        return [common, inputs[1]], [common]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(1,))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)


@register("Embedding", "_npx_embedding", "_sparse_Embedding")
@implements(layers.EMBEDDING)
class Embedding(Operator):
    """Look up a row of the weight (input_dim, output_dim) for each element of the data.

    Indices outside the weight are clipped. With ``sparse_grad`` the gradient of the weight is a
    row_sparse array of the rows that were looked up.
    """

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm(
        "_contrib_quantized_embedding", numbers=frozenset({0})
    )

    input_dim: int = attribute(minimum=1, doc="number of rows")
    output_dim: int = attribute(minimum=1, doc="length of a row")
    dtype: DType = attribute(default=_FLOAT32, doc="dtype of the weight, if it cannot be inferred")
    sparse_grad: bool = attribute(default=False, doc="whether the gradient is a row_sparse array")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "weight")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        weight = self.expect("weight", inputs[1], (self.input_dim, self.output_dim))
        if output is not None:
            data = self.expect("data", data, output[:-1])
        if data is not None:
            output = self.expect("output", output, (*data, self.output_dim))
        return [data, weight], [output]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = merge_dtypes(inputs[1], outputs[0]) or self.dtype
        return [inputs[0], common], [common]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (1,)

    def row_gradients(self) -> tuple[int, ...]:
        return (1,) if self.sparse_grad else ()

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        if inputs[1] != "row_sparse":
            return None
        return SparseKernel(
            stored=(1,),
            output="default",
            forward=self._read_rows,
            backward=self.backward,
            gradients={"default": (None, "row_sparse" if self.sparse_grad else "default")},
        )

    def _read_rows(self, run: Run, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        rows = whole_indices(run, inputs[0], self.input_dim, "clip")
        outputs[0][...] = inputs[1].read(run.xp, rows)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        rows = whole_indices(run, inputs[0], self.input_dim, "clip")
        read_at(run, inputs[1], rows, outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        rows, target = whole_indices(run, inputs[0], self.input_dim, "clip"), in_grads[1]
        if isinstance(target, Rows):
            target.add(run.xp, rows.reshape(-1), out_grads[0].reshape(-1, self.output_dim))
            return
        assert target is not None
        add_rows(run, target, (self.input_dim, self.output_dim), rows, out_grads[0])


@register("_contrib_SparseEmbedding")
class SparseEmbedding(Embedding):
    """``Embedding`` under its older name; the gradient of the weight is a row_sparse array."""

    sparse_grad: bool = attribute(default=True, doc="whether the gradient is a row_sparse array")
    deterministic: bool = attribute(
        default=False, doc="whether sums are deterministic; here they always are"
    )


@register("take", "_npi_take")
class Take(_Indexing):
    """Select elements of ``a`` along ``axis``, which is replaced by the axes of ``indices``.

    Indices may have any shape, and any dtype: they are truncated to integers.
    """

    axis: int = attribute(default=0, doc="the axis that the indices select from")
    mode: str = attribute(
        default="clip",
        choices=("clip", "wrap", "raise"),
        doc="how indices out of range are treated",
    )

    def output_storage(self, inputs: Sequence[str]) -> str:
        cuts_rows = inputs[0] == "csr" and self.axis == 0 and self.mode != "raise"
        return "csr" if cuts_rows else "default"

    def input_names(self) -> tuple[str, ...]:
        return ("a", "indices")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, indices = inputs
        if data is None or indices is None:
            return inputs, outputs
        axis = normalize_axis(self.axis, len(data))
        shape = data[:axis] + indices + data[axis + 1 :]
        return inputs, [self.expect("output", outputs[0], shape)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data = inputs[0]
        axis = normalize_axis(self.axis, data.ndim)
        whole = whole_indices(run, inputs[1], data.shape[axis], self.mode)
        # Rows are copied as a whole; along other axes, elements are copied one by one.
        if axis == 0:
            read_at(run, data, whole, outputs[0])
            return
        positions = self._positions(run, whole, data.shape, axis)
        read_at(run, data.reshape(-1), positions, outputs[0].reshape(positions.shape))

    def _positions(self, run: Run, indices: Array, shape: Shape, axis: int) -> Array:
        tail = len(shape) - axis - 1
        wide = indices.reshape((1,) * axis + indices.shape + (1,) * tail)
        return axis_positions(run, wide, shape, axis)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        gradient = in_grads[0]
        assert gradient is not None
        axis = normalize_axis(self.axis, gradient.ndim)
        whole = whole_indices(run, inputs[1], gradient.shape[axis], self.mode)
        if axis == 0:
            table = (gradient.shape[0], shape_size(gradient.shape[1:]))
            add_rows(run, gradient, table, whole, out_grads[0])
            return
        positions = self._positions(run, whole, gradient.shape, axis)
        add_at(run, gradient, positions, out_grads[0])


@register("pick", "choose_element_0index", "_npx_pick")
class Pick(_Indexing):
    """Select one element along an axis for each position in the other axes: data's dtype."""

    axis: int | None = attribute(default=-1, doc="the axis along which elements are picked")
    keepdims: bool = attribute(default=False, doc="keep the axis, with length 1")
    mode: str = attribute(
        default="clip", choices=("clip", "wrap"), doc="how indices out of range are treated"
    )

    def input_names(self) -> tuple[str, ...]:
        return ("data", "index")

    def _axis(self, rank: int) -> int:
        if self.axis is None:
            raise ShapeError("axis is None, which pick does not support; name an axis")
        return normalize_axis(self.axis, rank)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, index = inputs
        if data is None:
            return inputs, outputs
        axis = self._axis(len(data))
        kept = (*data[:axis], 1, *data[axis + 1 :])
        dropped = data[:axis] + data[axis + 1 :] or (1,)
        has_axis = index is not None and len(index) == len(data)
        index = self.expect("index", index, kept if has_axis else dropped)
        shape = kept if self.keepdims else dropped
        return [data, index], [self.expect("output", outputs[0], shape)]

    def _positions(self, run: Run, index: Array, shape: Shape) -> Array:
        axis = self._axis(len(shape))
        whole = whole_indices(run, index, shape[axis], self.mode)
        return axis_positions(run, whole.reshape(*shape[:axis], 1, *shape[axis + 1 :]), shape, axis)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        positions = self._positions(run, inputs[1], inputs[0].shape)
        read_at(run, inputs[0].reshape(-1), positions, outputs[0].reshape(positions.shape))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        gradient = in_grads[0]
        assert gradient is not None
        positions = self._positions(run, inputs[1], gradient.shape)
        write_at(run, gradient, positions, out_grads[0])


@register("batch_take")
class BatchTake(_Indexing):
    """Select one element of each row of a matrix by int32 indices, which are clipped to the range.

    It has no gradient, as in MXNet; use ``pick`` if you need one.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("a", "indices")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is not None and len(data) != 2:
            raise ShapeError(f"a has shape {data}, expected 2 dimensions")
        rows = self.expect("indices", inputs[1], outputs[0])
        rows = self.expect("indices", rows, None if data is None else data[:1])
        return [data, rows], [rows]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        (data, indices), types = super().infer_type(inputs, outputs)
        return [data, self.expect_dtype("indices", indices, _INT32)], types

    def _positions(self, run: Run, indices: Array, shape: Shape) -> Array:
        whole = whole_indices(run, indices, shape[1], "clip")
        return axis_positions(run, whole.reshape(-1, 1), shape, 1)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        positions = self._positions(run, inputs[1], inputs[0].shape)
        read_at(run, inputs[0].reshape(-1), positions, outputs[0].reshape(positions.shape))


@register("fill_element_0index")
class FillElement(Operator):
    """Replace one element in each row of a matrix: in row i, that in column ``rhs[i]``.

    ``lhs`` is the matrix (n, m) and ``mhs`` (n,) holds the new elements; columns out of range are
    ignored. It has no gradient.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "mhs", "rhs")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        matrix = self.expect("lhs", inputs[0], outputs[0])
        if matrix is None:
            return inputs, outputs
        if len(matrix) != 2:
            raise ShapeError(f"lhs has shape {matrix}, expected 2 dimensions")
        rows = matrix[:1]
        values, columns = (
            self.expect(name, shape, rows)
            for name, shape in zip(("mhs", "rhs"), inputs[1:], strict=True)
        )
        return [matrix, values, columns], [matrix]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        matrix, values, columns = inputs
        whole = run.scratch((*columns.shape, 1), "int64")
        run.xp.copyto(whole, columns[:, None], casting="unsafe")
        is_filled = run.scratch(matrix.shape, "bool")
        run.xp.equal(whole, run.xp.arange(matrix.shape[1]), out=is_filled)
        run.xp.copyto(outputs[0], matrix)
        run.xp.copyto(outputs[0], values[:, None], where=is_filled)


@register("one_hot", "_npx_one_hot")
class OneHot(Operator):
    """For each index, a vector with ``on_value`` at the index and ``off_value`` elsewhere.

    An index out of range gives a vector of ``off_value`` only.
    """

    depth: int = attribute(minimum=0, doc="length of the vectors")
    on_value: float = attribute(default=1.0, doc="value at the index")
    off_value: float = attribute(default=0.0, doc="value elsewhere")
    dtype: DType = attribute(default=_FLOAT32, doc="the output's dtype")

    def input_names(self) -> tuple[str, ...]:
        return ("indices",)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        indices, output = inputs[0], outputs[0]
        if output is not None:
            indices = self.expect("indices", indices, output[:-1])
        if indices is not None:
            output = self.expect("output", output, (*indices, self.depth or NO_ELEMENTS))
        return [indices], [output]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype)]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        indices, output = inputs[0], outputs[0]
        whole = run.scratch((*indices.shape, 1), "int64")
        run.xp.copyto(whole, indices[..., None], casting="unsafe")
        # By way of an array, whose conversion wraps numbers that integers of few bits lack.
        on, off = np.array([self.on_value, self.off_value]).astype(output.dtype)
        output.fill(off)
        if not output.size:
            return
        rows = output.reshape(-1, self.depth)
        number = run.xp.flatnonzero((whole >= 0) & (whole < self.depth))
        rows[number, whole.reshape(-1)[number]] = on
        if not output.flags.c_contiguous:
            run.xp.copyto(output, rows.reshape(output.shape))


@register("gather_nd", "_npi_gather_nd", "_npx_gather_nd")
class GatherNd(_Indexing):
    """Select elements, or slices, of the data by index vectors.

    ``indices`` (m, ...) holds one index for each of the data's first m axes; the output is (...,
    remaining axes of the data). Negative indices count from the end.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("data", "indices")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, indices = inputs
        if data is None or not indices or not indices[0]:
            return inputs, outputs
        if indices[0] > len(data):
            raise ShapeError(
                f"indices {indices} select along {indices[0]} axes, data {data} has {len(data)}"
            )
        shape = indices[1:] + data[indices[0] :] or (1,)
        return inputs, [self.expect("output", outputs[0], shape)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        _read_rows(run, inputs[0], inputs[1], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        gradient = in_grads[0]
        assert gradient is not None
        rows, table = _rows_of(run, inputs[1], gradient.shape)
        add_rows(run, gradient, table, rows, out_grads[0])


@register("scatter_nd")
class ScatterNd(_Indexing):
    """Write the data's elements, or slices, into zeros at index vectors.

    The inverse of ``gather_nd``; of elements with equal index vectors, one is kept.
    """

    shape: Shape = attribute(minimum=1, doc="the output's shape")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "indices")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, indices = inputs
        if indices and indices[0]:
            if indices[0] > len(self.shape):
                raise ShapeError(
                    f"indices {indices} select along {indices[0]} axes of shape {self.shape}"
                )
            data = self.expect("data", data, indices[1:] + self.shape[indices[0] :])
        return [data, indices], [self.expect("output", outputs[0], self.shape)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        rows, table = _rows_of(run, inputs[1], outputs[0].shape)
        write_rows(run, outputs[0], table, rows, inputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        _read_rows(run, out_grads[0], inputs[1], in_grads[0])


@register("_backward_gather_nd")
class GatherNdGradient(ScatterNd):
    """``scatter_nd``, but elements with equal index vectors are summed."""

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        rows, table = _rows_of(run, inputs[1], outputs[0].shape)
        positions = axis_positions(run, rows.reshape(-1, 1), table, 0)
        add_at(run, outputs[0], positions, inputs[0])


def _rows_of(run: Run, indices: Array, shape: Shape) -> tuple[Array, Shape]:
    """Return the row of each index vector, and the data's shape as a matrix (rows, row length)."""
    count = indices.shape[0]
    table = (shape_size(shape[:count]), shape_size(shape[count:]))
    return row_positions(run, indices, shape), table


def _read_rows(run: Run, data: Array, indices: Array, out: Array) -> None:
    rows, table = _rows_of(run, indices, data.shape)
    read_at(run, data.reshape(table), rows, out.reshape(*rows.shape, table[1]))
