"""Reductions over axes: sums, products, extremes, norms, and positions of extremes.

``axis`` lists the axes to reduce (None or empty: all); with ``exclude`` it lists the axes not to
reduce; ``keepdims`` keeps reduced axes with length 1. A full reduction has shape (1,), as in MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from ..capabilities import arrays as kinds
from ..capabilities.functions import Reduction as Known
from ..capabilities.kinds import implements
from ..errors import MXNetError, ShapeError
from ..types import Array, DType, Shape, normalize_axis
from .attributes import attribute
from .broadcasting import accumulator
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .prod_gradient import write_product_gradient
from .registry import declares_attributes, register
from .sparse_kernel import SparseKernel
from .sparse_reductions import matrix_sum_kernel, square_sum_kernel
from .summation import add_up

__all__ = ["ArgMax", "ArgMaxChannel", "ArgMin", "Norm", "NumpySum", "Reduction"]

Axes: TypeAlias = tuple[int, ...]
_INT64 = np.dtype("int64")
_AXIS = "axes to reduce; None for all"
_KEEPDIMS = "keep reduced axes with length 1"


class ReduceRow(NamedTuple):
    """One reduction.

    Attributes:
        names: MXNet's name, then its aliases.
        doc: what it computes.
        function: writes the reduction of x over axes into y, in which these have length 1.
        gradient: writes dx; in dy and y the reduced axes have length 1.
        reads: what the gradient reads.
        is_linear: whether it is linear.
        of_matrix: returns the kernel for a csr matrix and one axis, if there is one.
        known: the known reduction that it is, if any.
    """

    names: tuple[str, ...]
    doc: str
    function: Callable[[Run, Array, Axes, Array], None]
    gradient: Callable[[Run, Array, Array, Array, Array], None]
    reads: Reads
    is_linear: bool = False
    of_matrix: Callable[[int], SparseKernel] | None = None
    known: Known | None = None


def reduced_axes(axis: Axes | None, rank: int, exclude: bool = False) -> Axes:
    """Return the axes to reduce, in order; without any given, all axes."""
    if not axis:
        return tuple(range(rank))
    axes = sorted(normalize_axis(i, rank) for i in axis)
    if len(set(axes)) < len(axes):
        raise ShapeError(f"axis {axis} names one axis twice")
    if exclude:
        return tuple(i for i in range(rank) if i not in axes)
    return tuple(axes)


def reduced_shape(data: Shape, axes: Axes, keepdims: bool) -> Shape:
    """Return the shape after the reduction; (1,) if no axis remains."""
    if keepdims:
        return tuple(1 if i in axes else dim for i, dim in enumerate(data))
    return tuple(dim for i, dim in enumerate(data) if i not in axes) or (1,)


@implements(kinds.REDUCTION)
class _Reducing(Operator):
    axis: Axes | None
    keepdims: bool

    def axes(self, rank: int) -> Axes:
        """Return the axes to reduce."""
        return reduced_axes(self.axis, rank)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        shape = reduced_shape(data, self.axes(len(data)), self.keepdims)
        return inputs, [self.expect("output", outputs[0], shape)]

    def kept(self, output: Array, data: Shape) -> Array:
        """Return a view of the output, or its gradient, with reduced axes of length 1."""
        return output.reshape(reduced_shape(data, self.axes(len(data)), keepdims=True))


@declares_attributes
class Reduction(_Reducing):
    """A reduction of the table over ``axis``."""

    row: ClassVar[ReduceRow]

    axis: Axes | None = attribute(default=None, doc=_AXIS)
    keepdims: bool = attribute(default=False, doc=_KEEPDIMS)
    exclude: bool = attribute(default=False, doc="reduce all other axes instead")

    def axes(self, rank: int) -> Axes:
        return reduced_axes(self.axis, rank, self.exclude)

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        if inputs[0] != "csr" or self.row.of_matrix is None or len(axes := self.axes(2)) != 1:
            return None
        return self.row.of_matrix(axes[0])

    def reduction(self) -> Known | None:
        return self.row.known

    def backward_reads(self) -> Reads:
        return self.row.reads

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x = inputs[0]
        self.row.function(run, x, self.axes(x.ndim), self.kept(outputs[0], x.shape))

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dx = in_grads[0]
        assert dx is not None
        dy = self.kept(out_grads[0], dx.shape)
        y = None if outputs[0] is None else self.kept(outputs[0], dx.shape)
        self.row.gradient(run, dy, inputs[0], y, dx)


def _count(x: Array, y: Array) -> int:
    return int(x.size // y.size) if y.size else 1


def _sum(run: Run, x: Array, axes: Axes, y: Array) -> None:
    # NumPy would add up integers of few bits in 64; MXNet lets their sums wrap around.
    add_up(run, x, axes, y)


def _spread(run: Run, dy: Array, x: Array, y: Array, dx: Array) -> None:
    run.xp.copyto(dx, dy)


def _mean(run: Run, x: Array, axes: Axes, y: Array) -> None:
    _sum(run, x, axes, y)
    run.xp.divide(y, _count(x, y), out=y, casting="unsafe")


def _spread_mean(run: Run, dy: Array, x: Array, y: Array, dx: Array) -> None:
    if not dx.size:
        return
    share = run.scratch(dy.shape, dy.dtype)
    run.xp.divide(dy, _count(dx, dy), out=share, casting="unsafe")
    run.xp.copyto(dx, share)


def _product(run: Run, x: Array, axes: Axes, y: Array) -> None:
    run.xp.prod(x, axis=axes, dtype=x.dtype, keepdims=True, out=y)


def _is_nan(run: Run, x: Array) -> Array:
    mask = run.scratch(x.shape, "bool")
    run.xp.isnan(x, out=mask)
    return mask


def _without_nan(run: Run, x: Array, replacement: float) -> Array:
    clean = run.scratch(x.shape, x.dtype)
    run.xp.copyto(clean, x)
    run.xp.copyto(clean, replacement, where=_is_nan(run, x))
    return clean


def _nansum(run: Run, x: Array, axes: Axes, y: Array) -> None:
    _sum(run, _without_nan(run, x, 0), axes, y)


def _nanprod(run: Run, x: Array, axes: Axes, y: Array) -> None:
    _product(run, _without_nan(run, x, 1), axes, y)


def _nansum_gradient(run: Run, dy: Array, x: Array, y: Array, dx: Array) -> None:
    run.xp.copyto(dx, dy)
    run.xp.copyto(dx, 0, where=_is_nan(run, x))


def _nanprod_gradient(run: Run, dy: Array, x: Array, y: Array, dx: Array) -> None:
    write_product_gradient(run, dy, _without_nan(run, x, 1), y, dx)
    run.xp.copyto(dx, 0, where=_is_nan(run, x))


def _refuse_empty(x: Array, axes: Axes) -> None:
    if any(x.shape[axis] == 0 for axis in axes):
        message = f"an array of shape {x.shape} has no elements, so no maximum or minimum"
        raise MXNetError(message)


def _max(run: Run, x: Array, axes: Axes, y: Array) -> None:
    _refuse_empty(x, axes)
    run.xp.amax(x, axis=axes, keepdims=True, out=y)


def _min(run: Run, x: Array, axes: Axes, y: Array) -> None:
    _refuse_empty(x, axes)
    run.xp.amin(x, axis=axes, keepdims=True, out=y)


def _to_extremes(run: Run, dy: Array, x: Array, y: Array, dx: Array) -> None:
    """Give the whole gradient to every element equal to the extreme, as MXNet does."""
    is_extreme = run.scratch(x.shape, "bool")
    run.xp.equal(x, y, out=is_extreme)
    run.xp.multiply(dy, is_extreme, out=dx)


def _square_sum(run: Run, x: Array, axes: Axes, y: Array) -> None:
    squares = run.scratch(x.shape, x.dtype)
    run.xp.multiply(x, x, out=squares)
    _sum(run, squares, axes, y)


def _square_sum_gradient(run: Run, dy: Array, x: Array, y: Array, dx: Array) -> None:
    run.xp.multiply(x, dy, out=dx)
    dx *= 2


_BOTH = Reads(inputs=(0,), outputs=(0,))

REDUCTIONS = (
    ReduceRow(
        ("sum", "sum_axis", "_sparse_sum"),
        "Sum",
        _sum,
        _spread,
        Reads(),
        is_linear=True,
        of_matrix=partial(matrix_sum_kernel, is_mean=False),
        known=Known.SUM,
    ),
    ReduceRow(
        ("mean", "_sparse_mean"),
        "Mean",
        _mean,
        _spread_mean,
        Reads(),
        is_linear=True,
        of_matrix=partial(matrix_sum_kernel, is_mean=True),
        known=Known.MEAN,
    ),
    ReduceRow(("prod",), "Product", _product, write_product_gradient, _BOTH, known=Known.PRODUCT),
    ReduceRow(("nansum",), "Sum that ignores NaN", _nansum, _nansum_gradient, Reads(inputs=(0,))),
    ReduceRow(("nanprod",), "Product that ignores NaN", _nanprod, _nanprod_gradient, _BOTH),
    ReduceRow(("max", "max_axis"), "Maximum", _max, _to_extremes, _BOTH, known=Known.MAXIMUM),
    ReduceRow(("min", "min_axis"), "Minimum", _min, _to_extremes, _BOTH, known=Known.MINIMUM),
)

for _row in REDUCTIONS:
    _body = {
        "row": _row,
        "is_linear": _row.is_linear,
        "__doc__": f"{_row.doc} over ``axis``, or over all axes, in the data's dtype.",
        "__module__": __name__,
    }
    register(*_row.names)(type(_row.names[0], (Reduction,), _body))


@register("_square_sum")
class SquareSum(Reduction):
    """Sum of squares over ``axis``, in the data's dtype."""

    row = ReduceRow(
        ("_square_sum",), "Sum of squares", _square_sum, _square_sum_gradient, Reads(inputs=(0,))
    )

    def output_storage(self, inputs: Sequence[str]) -> str:
        return inputs[0] if self.axis == (1,) and self.keepdims else "default"

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        if inputs[0] != "row_sparse" or self.exclude or self.axis not in ((0,), (1,)):
            return None
        return square_sum_kernel(self.axis[0], keepdims=self.keepdims)


@register("_np_sum")
class NumpySum(_Reducing):
    """Sum over axes (``mx.np.sum``): a full reduction has shape ()."""

    axis: Axes | None = attribute(default=None, doc=_AXIS)
    dtype: DType | None = attribute(default=None, doc="the output's dtype; None for the data's")
    keepdims: bool = attribute(default=False, doc=_KEEPDIMS)
    initial: float | None = attribute(default=None, doc="initial value of the sum; None for 0")

    def input_names(self) -> tuple[str, ...]:
        return ("a",)

    def reduction(self) -> Known | None:
        return Known.SUM if self.initial is None else None

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is not None and not self.keepdims and len(self.axes(len(data))) == len(data):
            return inputs, [self.expect("output", outputs[0], ())]
        return super().infer_shape(inputs, outputs)

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        if self.dtype is None:
            return super().infer_type(inputs, outputs)
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype)]

    def backward_reads(self) -> Reads:
        return Reads()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x = inputs[0]
        y = self.kept(outputs[0], x.shape)
        wide = accumulator(y.dtype)
        run.xp.sum(x, axis=self.axes(x.ndim), dtype=wide, keepdims=True, out=y)
        if self.initial is not None:
            y += self.initial

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dx = in_grads[0]
        assert dx is not None
        run.xp.copyto(dx, self.kept(out_grads[0], dx.shape), casting="unsafe")


@register("norm", "_sparse_norm")
class Norm(_Reducing):
    """The L2 norm over ``axis``, or over all axes; with ``ord`` 1 the L1 norm.

    It is of ``out_dtype``, by default the data's dtype.
    """

    ord: int = attribute(default=2, minimum=1, maximum=2, doc="1 or 2")
    axis: Axes | None = attribute(default=None, doc=_AXIS)
    out_dtype: DType | None = attribute(default=None, doc="the output's dtype; None for the data's")
    keepdims: bool = attribute(default=False, doc=_KEEPDIMS)

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        if self.out_dtype is None:
            return super().infer_type(inputs, outputs)
        return inputs, [self.expect_dtype("output", outputs[0], self.out_dtype)]

    def reduction(self) -> Known | None:
        return Known.LENGTH if self.ord == 2 else None

    def backward_reads(self) -> Reads:
        return _BOTH if self.ord == 2 else Reads(inputs=(0,))

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x = inputs[0]
        y = self.kept(outputs[0], x.shape)
        work = run.scratch(x.shape, y.dtype)
        (run.xp.abs if self.ord == 1 else run.xp.square)(x, out=work, casting="unsafe")
        _sum(run, work, self.axes(x.ndim), y)
        if self.ord == 2:
            run.xp.sqrt(y, out=y, casting="unsafe")

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        x, dx = inputs[0], in_grads[0]
        assert dx is not None
        if self.ord == 1:
            run.xp.sign(x, out=dx)
        else:
            # x / |x|; as in MXNet, it is NaN if the norm is 0.
            run.xp.divide(x, self.kept(outputs[0], x.shape), out=dx, casting="unsafe")
        run.xp.multiply(dx, self.kept(out_grads[0], x.shape), out=dx, casting="unsafe")


class _Arg(Operator):
    """Base: the position of the first extreme, as a number of the data's dtype."""

    ufunc: ClassVar[str]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def search(self, run: Run, data: Array, axis: int, output: Array) -> None:
        """Write the positions along an axis, which the output lacks or has with length 1."""
        shape = data.shape[:axis] + data.shape[axis + 1 :]
        found = run.scratch(shape, _INT64)
        getattr(run.xp, self.ufunc)(data, axis=axis, out=found)
        run.xp.copyto(output, found.reshape(output.shape), casting="unsafe")


@declares_attributes
class _ArgOverAxis(_Arg):
    axis: int | None = attribute(default=None, doc="the axis; None to flatten the data")
    keepdims: bool = attribute(default=False, doc="keep the axis with length 1")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        axes = reduced_axes(None if self.axis is None else (self.axis,), len(data))
        shape = reduced_shape(data, axes, self.keepdims)
        return inputs, [self.expect("output", outputs[0], shape)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data = inputs[0]
        if self.axis is None:
            self.search(run, data.reshape(-1), 0, outputs[0])
        else:
            self.search(run, data, normalize_axis(self.axis, data.ndim), outputs[0])


@register("argmax")
class ArgMax(_ArgOverAxis):
    """The position of the first of the largest elements along an axis, in the data's dtype."""

    ufunc = "argmax"


@register("argmin")
class ArgMin(_ArgOverAxis):
    """The position of the first of the smallest elements along an axis, in the data's dtype."""

    ufunc = "argmin"


@register("argmax_channel")
class ArgMaxChannel(_Arg):
    """The position of the first of the largest elements along axis 1, in the data's dtype."""

    ufunc = "argmax"

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) < 2:
            raise ShapeError(f"data has shape {data}, expected at least 2 dimensions")
        return inputs, [self.expect("output", outputs[0], data[:1] + data[2:])]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.search(run, inputs[0], 1, outputs[0])
