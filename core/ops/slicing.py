"""Operators that cut a region out of their data, or split it along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeAlias

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, ShapeError
from ..types import Array, DType, Shape, merge_dtypes, normalize_axis
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register
from .storage_rules import of_first

__all__ = [
    "Crop",
    "Slice",
    "SliceAssign",
    "SliceAssignScalar",
    "SliceAxis",
    "SliceChannel",
    "SliceLike",
    "SplitV2",
]

Region: TypeAlias = tuple[slice, ...]
Bounds: TypeAlias = tuple[int | None, ...]

_BEGIN = "start along each axis; None for the beginning"
_END = "end, exclusive; None for the end of the axis"
_STEP = "step of each axis; None for 1"
_SQUEEZE = "remove the axis; every part must have length 1"


@implements(kinds.SLICING)
class _Slicing(Operator):
    """Base: the output is a region of the first input; elsewhere the gradient is 0."""

    def region(self, data: Shape, output: Shape) -> Region:
        """Return the slices of the data that are the output."""
        raise NotImplementedError

    def backward_reads(self) -> Reads:
        return Reads()

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, y = inputs[0], outputs[0]
        run.xp.copyto(y, x[self.region(x.shape, y.shape)])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dy, dx = out_grads[0], in_grads[0]
        assert dx is not None
        if dx.size != dy.size:
            dx.fill(0)
        run.xp.copyto(dx[self.region(dx.shape, dy.shape)], dy)


class _WithBounds(Operator):
    """Base of operators with ``begin``, ``end`` and ``step`` for each leading axis."""

    begin: Bounds
    end: Bounds
    step: Bounds

    def __post_init__(self) -> None:
        if len(self.begin) != len(self.end) or len(self.step) not in (0, len(self.begin)):
            raise AttributeValueError(
                f"begin {self.begin}, end {self.end} and step {self.step} differ in length"
            )
        if 0 in self.step:
            raise AttributeValueError(f"step {self.step} must not be 0")

    def slices(self) -> Region:
        """Return a slice for each of the leading axes."""
        steps = self.step or (None,) * len(self.begin)
        return tuple(slice(*bounds) for bounds in zip(self.begin, self.end, steps, strict=True))

    def sliced_shape(self, data: Shape) -> Shape:
        """Return the region's shape; unknown dimensions stay unknown."""
        slices = self.slices()
        if len(slices) > len(data):
            raise ShapeError(
                f"begin {self.begin} names {len(slices)} axes, data {data} has {len(data)}"
            )
        cut = zip(slices, data, strict=False)
        lengths = tuple(dim and len(range(*part.indices(dim))) for part, dim in cut)
        for axis, (length, dim) in enumerate(zip(lengths, data, strict=False)):
            if dim and not length:
                raise ShapeError(
                    f"begin {self.begin}, end {self.end}, step {self.step} select nothing of "
                    f"axis {axis} of data {data}"
                )
        return lengths + data[len(slices) :]


@register("slice", "crop", "_npi_slice", "_npx_slice", "_sparse_slice")
class Slice(_WithBounds, _Slicing):
    """``data[begin:end:step, ...]``, with one number for each leading axis, clipped to the data."""

    is_linear: ClassVar[bool] = True

    begin: Bounds = attribute(doc=_BEGIN)
    end: Bounds = attribute(doc=_END)
    step: Bounds = attribute(default=(), doc=_STEP)

    def output_storage(self, inputs: Sequence[str]) -> str:
        return of_first(inputs)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        return inputs, [self.expect("output", outputs[0], self.sliced_shape(data))]

    def region(self, data: Shape, output: Shape) -> Region:
        return self.slices()


@register("_slice_assign", "_crop_assign", "_npi_slice_assign")
class SliceAssign(_WithBounds):
    """The left input with the region replaced by the right input. It has no gradient."""

    begin: Bounds = attribute(doc=_BEGIN)
    end: Bounds = attribute(doc=_END)
    step: Bounds = attribute(default=(), doc=_STEP)

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        lhs = self.expect("lhs", inputs[0], outputs[0])
        if lhs is None:
            return inputs, outputs
        return [lhs, self.expect("rhs", inputs[1], self.sliced_shape(lhs))], [lhs]

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])
        run.xp.copyto(outputs[0][self.slices()], inputs[1])


@register("_slice_assign_scalar", "_crop_assign_scalar", "_npi_slice_assign_scalar")
class SliceAssignScalar(_WithBounds):
    """The data with the region replaced by a number. It has no gradient."""

    scalar: float = attribute(default=0.0, doc="the number")
    begin: Bounds = attribute(doc=_BEGIN)
    end: Bounds = attribute(doc=_END)
    step: Bounds = attribute(default=(), doc=_STEP)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if inputs[0] is not None:
            self.sliced_shape(inputs[0])
        return super().infer_shape(inputs, outputs)

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])
        outputs[0][self.slices()].fill(self.scalar)


@register("slice_axis")
class SliceAxis(_Slicing):
    """``begin:end`` along one axis; negative numbers count from its end."""

    is_linear: ClassVar[bool] = True

    axis: int = attribute(doc="the axis to slice")
    begin: int = attribute(doc="first index")
    end: int | None = attribute(doc="end, exclusive; None for the end of the axis")

    def _bounds(self, size: int) -> tuple[int, int]:
        begin = self.begin + size * (self.begin < 0)
        end = size if self.end is None else self.end + size * (self.end < 0)
        if not 0 <= begin < end <= size:
            raise ShapeError(
                f"begin {self.begin} and end {self.end} select no range of axis {self.axis}, "
                f"which has size {size}"
            )
        return begin, end

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        known = data if data is not None else output
        if known is None:
            return inputs, outputs
        axis = normalize_axis(self.axis, len(known))
        if data is not None:
            begin, end = self._bounds(data[axis]) if data[axis] else (0, 0)
            output = self.expect("output", output, _replace(data, axis, end - begin))
        assert output is not None
        return [self.expect("data", data, _replace(output, axis, 0))], [output]

    def region(self, data: Shape, output: Shape) -> Region:
        axis = normalize_axis(self.axis, len(data))
        return (slice(None),) * axis + (slice(*self._bounds(data[axis])),)


@register("slice_like")
class SliceLike(_Slicing):
    """Slice the data, from its start, to the size of another array along the given axes or all."""

    axes: tuple[int, ...] = attribute(default=(), doc="axes to slice; empty for all")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "shape_like")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, like = inputs
        if data is None or like is None:
            return inputs, outputs
        if not self.axes and len(data) != len(like):
            raise ShapeError(
                f"data {data} and shape_like {like} differ in number of dimensions; name the axes"
            )
        shape = data
        for named in self.axes or range(len(data)):
            axis, source = normalize_axis(named, len(data)), normalize_axis(named, len(like))
            if data[axis] and like[source] > data[axis]:
                raise ShapeError(
                    f"axis {axis} of data {data} is shorter than axis {source} of shape_like {like}"
                )
            shape = _replace(shape, axis, like[source])
        return inputs, [self.expect("output", outputs[0], shape)]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = merge_dtypes(inputs[0], outputs[0])
        return [data, inputs[1]], [data]

    def region(self, data: Shape, output: Shape) -> Region:
        return tuple(slice(size) for size in output)


@register("Crop")
class Crop(_Slicing):
    """Crop the first input (n, c, h, w) to height and width ``h_w``, or to those of the second."""

    names_outputs: ClassVar[bool] = True

    variadic = "num_args"

    num_args: int = attribute(minimum=1, maximum=2, doc="number of inputs, 1 or 2")
    offset: Shape = attribute(default=(0, 0), doc="first row and column to keep")
    h_w: Shape = attribute(default=(0, 0), doc="height and width to keep, with one input")
    center_crop: bool = attribute(
        default=False, doc="crop around the center instead of at the offset"
    )

    def __post_init__(self) -> None:
        for name, value in (("offset", self.offset), ("h_w", self.h_w)):
            if len(value) != 2:
                raise AttributeValueError(f"attribute {name!r} is {value}; expected two numbers")

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"arg{i}" for i in range(self.num_args))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        for shape in inputs:
            if shape is None:
                return inputs, outputs
            if len(shape) != 4:
                raise ShapeError(f"input has shape {shape}, expected 4 dimensions (n, c, h, w)")
        data, last = inputs[0], inputs[-1]
        assert data is not None
        assert last is not None
        size = self.h_w if self.num_args == 1 else last[2:]
        for name, start, length, limit in zip(
            ("height", "width"), self.offset, size, data[2:], strict=True
        ):
            start = 0 if self.center_crop else start
            if (limit and start + length > limit) or (self.num_args == 1 and length < 1):
                raise ShapeError(
                    f"{name} {length} at offset {start} is not within the data's {limit}"
                )
        return inputs, [self.expect("output", outputs[0], data[:2] + size)]

    def region(self, data: Shape, output: Shape) -> Region:
        starts = self.offset
        if self.center_crop:
            starts = tuple((x - y) // 2 for x, y in zip(data[2:], output[2:], strict=True))
        rows, columns = (slice(s, s + n) for s, n in zip(starts, output[2:], strict=True))
        return slice(None), slice(None), rows, columns


_MOST_PARTS = 65536
"""Limit on the number of outputs. Their names are made before any shape is known, so a hostile file
could otherwise exhaust memory."""


class _Parting(Operator):
    """Base: the outputs are consecutive parts of the data along an axis."""

    axis: int
    squeeze_axis: bool

    def part_count(self) -> int:
        """Return the number of parts."""
        raise NotImplementedError

    def bounds(self, size: int) -> list[int]:
        """Return the starts of the parts along an axis, and the axis's end."""
        raise NotImplementedError

    def output_names(self) -> tuple[str, ...]:
        count = self.part_count()
        return tuple(f"output{i}" for i in range(count)) if count > 1 else ("output",)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        axis = normalize_axis(self.axis, len(data))
        bounds = self.bounds(data[axis]) if data[axis] else [0] * (self.part_count() + 1)
        for i, (start, stop) in enumerate(itertools.pairwise(bounds)):
            length = stop - start
            if self.squeeze_axis and length > 1:
                raise ShapeError(
                    f"squeeze_axis is True and part {i} of axis {axis} of data {data} has length "
                    f"{length}; it must be 1"
                )
            shape = _drop(data, axis) if self.squeeze_axis else _replace(data, axis, length)
            outputs[i] = self.expect(f"output{i}", outputs[i], shape)
            data = self._complete(data, axis, outputs[i])
        return [data], outputs

    def _complete(self, data: Shape, axis: int, output: Shape | None) -> Shape:
        """Complete the data's dimensions, except along the axis, from one part."""
        assert output is not None
        across = output if self.squeeze_axis else _drop(output, axis)
        return (*across[:axis], data[axis], *across[axis:])

    def backward_reads(self) -> Reads:
        return Reads()

    def _regions(self, data: Array) -> Iterator[Array]:
        axis = normalize_axis(self.axis, data.ndim)
        lead = (slice(None),) * axis
        for start, stop in itertools.pairwise(self.bounds(data.shape[axis])):
            part = start if self.squeeze_axis else slice(start, stop)
            yield data[(*lead, part, ...)]  # the ellipsis makes a view of a single number, too

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for region, y in zip(self._regions(inputs[0]), outputs, strict=True):
            run.xp.copyto(y, region)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        for region, dy in zip(self._regions(in_grads[0]), out_grads, strict=True):
            run.xp.copyto(region, dy)


@register("SliceChannel", "split")
@implements(kinds.SPLIT)
class SliceChannel(_Parting):
    """Split the data into ``num_outputs`` equal parts along an axis."""

    names_outputs: ClassVar[bool] = True

    is_linear: ClassVar[bool] = True
    monitors_data: ClassVar[bool] = True

    num_outputs: int = attribute(minimum=1, maximum=_MOST_PARTS, doc="number of parts")
    axis: int = attribute(default=1, doc="the axis to split")
    squeeze_axis: bool = attribute(default=False, doc=_SQUEEZE)

    def part_count(self) -> int:
        return self.num_outputs

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self.num_outputs))

    def bounds(self, size: int) -> list[int]:
        if size % self.num_outputs:
            raise ShapeError(
                f"axis {self.axis} has size {size}, which num_outputs {self.num_outputs} does not "
                f"divide"
            )
        length = size // self.num_outputs
        return [i * length for i in range(self.num_outputs + 1)]


@register("_split_v2", "_npi_split")
@implements(kinds.SPLIT)
class SplitV2(_Parting):
    """Split the data along an axis at given indices, or into sections of nearly equal size."""

    indices: tuple[int, ...] = attribute(doc="starts of the parts, 0 for the first")
    axis: int = attribute(default=1, doc="the axis to split")
    squeeze_axis: bool = attribute(default=False, doc=_SQUEEZE)
    sections: int = attribute(
        default=0, minimum=0, maximum=_MOST_PARTS, doc="number of parts; 0 to use the indices"
    )

    def part_count(self) -> int:
        return self.sections or len(self.indices)

    def bounds(self, size: int) -> list[int]:
        if self.sections:
            # As in numpy.array_split, the first parts are longer by 1 where there is a rest.
            length, longer = divmod(size, self.sections)
            return [i * length + min(i, longer) for i in range(self.sections + 1)]
        bounds = [*self.indices, size]
        if bounds[0] != 0 or any(stop <= start for start, stop in itertools.pairwise(bounds)):
            raise ShapeError(
                f"indices {self.indices} leave an empty part of an axis of size {size}; they must "
                f"begin with 0 and increase"
            )
        return bounds


def _drop(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _replace(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])
