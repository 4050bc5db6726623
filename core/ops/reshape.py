"""Operators that change the shape of their data and keep the order of its elements."""

from __future__ import annotations

from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..capabilities.quantized import QuantizedForm
from ..errors import ShapeError
from ..types import MAX_RANK, DType, Shape, is_known, merge_dtypes, normalize_axis, shape_size
from .attributes import attribute
from .identity import PassThrough
from .registry import register

__all__ = [
    "ExpandDims",
    "Flatten",
    "NumpyReshape",
    "Reshape",
    "ReshapeLike",
    "Squeeze",
    "resolve_codes",
    "solve_size",
]


def solve_size(shape: Shape | None, other: Shape | None) -> Shape | None:
    """Fill in the one unknown dimension of ``shape`` so that it has as many elements as ``other``.

    Raises:
        ShapeError: the two cannot have the same number of elements.
    """
    if shape is None or other is None or not is_known(other):
        return shape
    size = shape_size(other)
    unknown = [i for i, dim in enumerate(shape) if dim == 0]
    if not unknown:
        if shape_size(shape) != size:
            raise ShapeError(
                f"shape {shape} has {shape_size(shape)} elements, {other} has {size}; "
                f"a reshape keeps their number"
            )
        return shape
    known = shape_size(tuple(dim for dim in shape if dim))
    if len(unknown) > 1:
        return shape
    if size % known:
        raise ShapeError(
            f"shape {shape} cannot have the {size} elements of {other}: {size} is not a "
            f"multiple of {known}"
        )
    return tuple(dim or size // known for dim in shape)


def resolve_codes(codes: Shape, data: Shape, reverse: bool = False) -> Shape:
    """Return the shape that results from MXNet's special codes and a data shape (0: unknown).

    Codes: 0 copies a dimension, -1 is inferred from the others, -2 copies all remaining dimensions,
    -3 merges two, -4 splits one into the two dimensions that follow (one of them may be -1).
    ``reverse`` reads both from right to left.

    Raises:
        ShapeError: the codes do not fit the data.
    """
    if reverse:
        return _read_codes(codes[::-1], data[::-1])[::-1]
    return _read_codes(codes, data)


def _read_codes(codes: Shape, data: Shape) -> Shape:
    dims: list[int] = []
    source = position = 0
    inferred: int | None = None

    def take() -> int:
        nonlocal source
        if source >= len(data):
            raise ShapeError(
                f"shape code {position} of {codes} needs more dimensions than data {data} has"
            )
        source += 1
        return data[source - 1]

    while position < len(codes):
        code = codes[position]
        if code > 0:
            dims.append(code)
            source += 1  # A number and -1 also stand for a dimension of the data.
        elif code == 0:
            dims.append(take())
        elif code == -1:
            if inferred is not None:
                raise ShapeError(f"shape {codes} has -1 twice; only one dimension can be inferred")
            inferred = len(dims)
            dims.append(1)
            source += 1
        elif code == -2:
            dims.extend(data[source:])
            source = max(source, len(data))
        elif code == -3:
            dims.append(take() * take())
        elif code == -4:
            dims.extend(_split(take(), codes[position + 1 : position + 3]))
            position += 2
        else:
            raise ShapeError(f"shape {codes} has the code {code}; the codes are 0 to -4")
        position += 1
    if inferred is not None:
        dims[inferred] = 0
    return tuple(dims)


def _split(dim: int, parts: Shape) -> Shape:
    if len(parts) < 2 or any(part == 0 or part < -1 for part in parts) or parts == (-1, -1):
        raise ShapeError(
            f"shape code -4 is followed by {parts}; expected two dimensions, one of them may be -1"
        )
    left, right = parts
    if dim == 0:
        return max(left, 0), max(right, 0)
    if left == -1:
        left = dim // right
    if right == -1:
        right = dim // left
    if left * right != dim:
        raise ShapeError(f"shape code -4 splits {dim} into {left} x {right}; the product differs")
    return left, right


class _Reshaping(PassThrough):
    """Base of operators whose output is the data in another shape."""

    def resolve(self, data: Shape) -> Shape:
        """Return the output's shape as far as it is known (0: unknown)."""
        raise NotImplementedError

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        if data is not None:
            target = self.resolve(data)
            if len(target) > MAX_RANK:
                raise ShapeError(f"the new shape has {len(target)} dimensions; at most {MAX_RANK}")
            output = self.expect("output", output, solve_size(target, data))
            data = solve_size(data, output)
        return [data, *inputs[1:]], [output]


@register("Reshape", "reshape")
@implements(kinds.RESHAPING)
class Reshape(_Reshaping):
    """Reshape the data; the shape may contain MXNet's special codes (``resolve_codes``)."""

    is_linear: ClassVar[bool] = True

    shape: Shape = attribute(default=(), doc="the new shape, with special codes")
    reverse: bool = attribute(default=False, doc="read shape and data from right to left")
    target_shape: Shape = attribute(
        default=(), minimum=0, doc="deprecated: the new shape, with 0 for a dimension to infer"
    )
    keep_highest: bool = attribute(default=False, doc="deprecated: keep the data's first dimension")

    def resolve(self, data: Shape) -> Shape:
        if self.shape:
            return resolve_codes(self.shape, data, self.reverse)
        if not self.target_shape:
            raise ShapeError("attribute 'shape' is empty; give the new shape")
        if self.keep_highest and not data:
            raise ShapeError("keep_highest needs data of at least one dimension; it has none")
        target = (data[0], *self.target_shape[1:]) if self.keep_highest else self.target_shape
        if self.target_shape[int(self.keep_highest) :].count(0) > 1:
            raise ShapeError(f"target_shape {self.target_shape} has 0 twice; one can be inferred")
        return target


@register("_np_reshape")
class NumpyReshape(_Reshaping):
    """Reshape the data; one dimension may be -1 (``mx.np.reshape``)."""

    newshape: Shape = attribute(doc="the new shape, with -1 for a dimension to infer")
    order: str = attribute(default="C", choices=("C",), doc="the order of the elements")

    def input_names(self) -> tuple[str, ...]:
        return ("a",)

    def resolve(self, data: Shape) -> Shape:
        if self.newshape.count(-1) > 1 or any(dim < -1 or dim == 0 for dim in self.newshape):
            raise ShapeError(
                f"newshape is {self.newshape}; expected dimensions, one of them may be -1"
            )
        return tuple(max(dim, 0) for dim in self.newshape)


@register("Flatten", "flatten", "_npx_batch_flatten")
class Flatten(_Reshaping):
    """Keep the first dimension and join all others: (n, ...) becomes (n, m)."""

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm("_contrib_quantized_flatten")

    is_linear: ClassVar[bool] = True

    def keeps_features(self) -> bool:
        return True

    def resolve(self, data: Shape) -> Shape:
        if not data:
            raise ShapeError("data has shape (); expected at least one dimension")
        return data[0], shape_size(data[1:])


@register("expand_dims", "_npi_expand_dims")
@implements(kinds.EXPAND_DIMS)
class ExpandDims(PassThrough):
    """Insert a dimension of 1 before an axis; -1 appends it."""

    is_linear: ClassVar[bool] = True

    axis: int = attribute(doc="position of the new axis")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        if data is None and output is None:
            return inputs, outputs
        rank = len(data) if data is not None else len(output or ()) - 1
        if not -rank - 1 <= self.axis <= rank:
            raise ShapeError(f"axis is {self.axis}; expected {-rank - 1} to {rank} for data {data}")
        axis = normalize_axis(self.axis, rank + 1)
        if data is not None:
            output = self.expect("output", output, (*data[:axis], 1, *data[axis:]))
        assert output is not None
        return [self.expect("data", data, output[:axis] + output[axis + 1 :])], [output]


@register("squeeze")
class Squeeze(PassThrough):
    """Remove dimensions of 1: those of the given axes, or all."""

    is_linear: ClassVar[bool] = True
    monitors_data: ClassVar[bool] = True

    axis: tuple[int, ...] | None = attribute(default=None, doc="axes to remove; None for all of 1")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None or (self.axis is None and not is_known(data)):
            return inputs, outputs
        axes = self._axes(data)
        kept = tuple(dim for i, dim in enumerate(data) if i not in axes)
        output = self.expect("output", outputs[0], kept or (1,))
        if kept and output is not None:
            rest = iter(output)
            data = tuple(1 if i in axes else next(rest) for i in range(len(data)))
        return [data], [output]

    def _axes(self, data: Shape) -> set[int]:
        if self.axis is None:
            return {i for i, dim in enumerate(data) if dim == 1}
        axes = [normalize_axis(axis, len(data)) for axis in self.axis]
        if len(set(axes)) < len(axes):
            raise ShapeError(f"axis {self.axis} names one axis twice")
        for axis in axes:
            if data[axis] > 1:
                raise ShapeError(
                    f"axis {axis} of data {data} has size {data[axis]}; only 1 can be squeezed"
                )
        return set(axes)


@register("reshape_like", "_npx_reshape_like")
class ReshapeLike(PassThrough):
    """Reshape the left input to the shape of the right one, entirely or in a range of axes.

    Axes ``lhs_begin`` to ``lhs_end`` of the left input are replaced by axes ``rhs_begin`` to
    ``rhs_end`` of the right one; None means the first or the last.
    """

    lhs_begin: int | None = attribute(default=None, doc="first axis to replace")
    lhs_end: int | None = attribute(default=None, doc="end of the axes to replace, exclusive")
    rhs_begin: int | None = attribute(default=None, doc="first axis to copy")
    rhs_end: int | None = attribute(default=None, doc="end of the axes to copy, exclusive")

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        lhs, rhs = inputs
        if lhs is None or rhs is None:
            return inputs, outputs
        left = _axis_range("lhs", self.lhs_begin, self.lhs_end, lhs)
        right = _axis_range("rhs", self.rhs_begin, self.rhs_end, rhs)
        shape = lhs[: left[0]] + rhs[right[0] : right[1]] + lhs[left[1] :]
        output = self.expect("output", outputs[0], solve_size(shape, lhs))
        return [solve_size(lhs, output), rhs], [output]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        lhs = merge_dtypes(inputs[0], outputs[0])
        return [lhs, inputs[1]], [lhs]


def _axis_range(side: str, begin: int | None, end: int | None, shape: Shape) -> tuple[int, int]:
    """Return non-negative bounds of a range of axes; both must lie in 0 to rank."""
    rank = len(shape)
    first = 0 if begin is None else begin + rank * (begin < 0)
    last = rank if end is None else end + rank * (end < 0)
    if not 0 <= first <= last <= rank:
        raise ShapeError(
            f"{side}_begin {begin} and {side}_end {end} select no range of the axes of {shape}"
        )
    return first, last
