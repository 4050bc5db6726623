"""Operators that join several arrays, or copies of one, into a larger array."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..capabilities.quantized import QuantizedForm
from ..errors import ShapeError
from ..types import Array, Shape, normalize_axis, shape_size
from .attributes import attribute
from .csr import Csr, Pattern
from .operator import Operator, Reads, Run
from .registry import declares_attributes, register
from .sparse_kernel import SparseKernel
from .summation import add_up

__all__ = ["Concat", "RNNParamConcat", "Repeat", "Stack", "Tile"]


@declares_attributes
class _Joining(Operator):
    """Base of operators with any number of inputs, which are written side by side into the
    output."""

    variadic = "num_args"

    num_args: int = attribute(minimum=1, doc="number of inputs")

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"arg{i}" for i in range(self.num_args))

    def backward_reads(self) -> Reads:
        return Reads()

    def regions(self, output: Array, inputs: Sequence[Array]) -> Iterable[Array]:
        """Return the region of the output for each input."""
        raise NotImplementedError

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for x, region in zip(inputs, self.regions(outputs[0], inputs), strict=True):
            run.xp.copyto(region, x)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        for dx, region in zip(in_grads, self.regions(out_grads[0], in_grads), strict=True):
            if dx is not None:
                run.xp.copyto(dx, region)


@register("Concat", "concat", "_sparse_concat")
@implements(kinds.CONCATENATION)
class Concat(_Joining):
    """Join ``num_args`` arrays along axis ``dim``; dtypes and all other dimensions are equal.

    MXNet's ``MXNET_BACKWARD_DO_MIRROR`` does not recompute it, so ``is_costly`` is set.
    """

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm("_contrib_quantized_concat")
    names_outputs: ClassVar[bool] = True

    is_linear: ClassVar[bool] = True
    is_costly: ClassVar[bool] = True

    dim: int = attribute(default=1, doc="the axis along which the inputs are joined")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        known = next((shape for shape in (*inputs, *outputs) if shape is not None), None)
        if known is None:
            return inputs, outputs
        axis = normalize_axis(self.dim, len(known))
        common: Shape | None = None
        for name, shape in zip((*self.input_names(), "output"), (*inputs, *outputs), strict=True):
            across = None if shape is None else _replace(shape, axis, 0)
            common = self.expect(name, across, common)
        assert common is not None
        shapes = [self.expect("input", shape, common) for shape in inputs]
        output = self.expect("output", outputs[0], common)
        lengths = [shape[axis] for shape in shapes]
        if 0 not in lengths:
            output = self.expect("output", output, _replace(common, axis, sum(lengths)))
        elif output[axis] and lengths.count(0) == 1:
            rest = output[axis] - sum(lengths)
            if rest < 1:
                raise ShapeError(f"output {output} is too short for the inputs {shapes}")
            shapes[lengths.index(0)] = _replace(common, axis, rest)
        return [*shapes], [output]

    def output_storage(self, inputs: Sequence[str]) -> str:
        return "csr" if self.dim == 0 and set(inputs) == {"csr"} else "default"

    def sparse_kernel(self, inputs: Sequence[str]) -> SparseKernel | None:
        if self.output_storage(inputs) != "csr":
            return None
        return SparseKernel(stored=tuple(range(len(inputs))), output="csr", forward=_join_matrices)

    def needs_every_gradient(self) -> bool:
        return True

    def stacked(self, shapes: Sequence[Shape], is_shared: Sequence[bool]) -> Operator | None:
        if any(is_shared):
            return None
        return Concat(num_args=self.num_args, dim=self.dim % len(shapes[0]) + 1)

    def regions(self, output: Array, inputs: Sequence[Array]) -> Iterable[Array]:
        axis = normalize_axis(self.dim, output.ndim)
        ends = itertools.accumulate((x.shape[axis] for x in inputs), initial=0)
        lead = (slice(None),) * axis
        return (output[(*lead, slice(*bounds))] for bounds in itertools.pairwise(ends))


def _join_matrices(run: Run, inputs: Sequence[Csr], outputs: Sequence[Csr]) -> None:
    """Write matrices below each other."""
    xp = run.xp
    ends = itertools.accumulate((x.data.shape[0] for x in inputs), initial=0)
    offsets = [x.pattern.indptr[1:] + end for x, end in zip(inputs, ends, strict=False)]
    indptr = xp.concatenate([inputs[0].pattern.indptr[:1], *offsets])
    columns = xp.concatenate([x.pattern.columns for x in inputs])
    outputs[0].keep(Pattern(xp, indptr, columns), xp.concatenate([x.data for x in inputs]))


@register("_rnn_param_concat")
class RNNParamConcat(Concat):
    """``Concat`` of flat parameters, as found in files of Gluon's recurrent layers.

    Unknown lengths share the remaining length equally, as in MXNet.
    """

    quantized_form = None

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        shapes, (output,) = super().infer_shape(inputs, outputs)
        lengths = [0 if shape is None else shape[0] for shape in shapes]
        unknown = lengths.count(0)
        if unknown < 2 or output is None or len(output) != 1 or not output[0]:
            return shapes, [output]
        share, rest = divmod(output[0] - sum(lengths), unknown)
        if share < 1 or rest:
            raise ShapeError(f"output {output} does not fit the inputs {shapes}")
        return [(length or share,) for length in lengths], [output]


@register("stack")
@implements(kinds.STACK)
class Stack(_Joining):
    """Join ``num_args`` arrays of one shape and dtype along a new axis."""

    is_linear: ClassVar[bool] = True

    axis: int = attribute(default=0, doc="position of the new axis in the output")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common: Shape | None = None
        for name, shape in zip(self.input_names(), inputs, strict=True):
            common = self.expect(name, shape, common)
        known = len(common) + 1 if common is not None else len(outputs[0] or ())
        if not known:
            return inputs, outputs
        axis = normalize_axis(self.axis, known)
        output = outputs[0]
        if output is not None:
            common = self.expect("input", common, output[:axis] + output[axis + 1 :])
        assert common is not None
        output = self.expect("output", output, (*common[:axis], self.num_args, *common[axis:]))
        return [common] * len(inputs), [output]

    def regions(self, output: Array, inputs: Sequence[Array]) -> Iterator[Array]:
        lead = (slice(None),) * normalize_axis(self.axis, output.ndim)
        return (output[(*lead, i)] for i in range(self.num_args))


@register("tile", "_npi_tile")
class Tile(Operator):
    """Repeat all of the data along each axis: the dimensions are multiplied by ``reps``.

    Where data or ``reps`` has fewer axes, ones are prepended.
    """

    is_linear: ClassVar[bool] = True
    monitors_data: ClassVar[bool] = True

    reps: tuple[int, ...] = attribute(
        minimum=1, doc="repetitions along each axis, aligned with the data's last axes"
    )

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        rank = max(len(data), len(self.reps))
        wide, reps = (1,) * (rank - len(data)) + data, self._all_reps(rank)
        shape = tuple(dim * count for dim, count in zip(wide, reps, strict=True))
        return inputs, [self.expect("output", outputs[0], shape)]

    def _all_reps(self, rank: int) -> tuple[int, ...]:
        return (1,) * (rank - len(self.reps)) + self.reps

    def backward_reads(self) -> Reads:
        return Reads()

    def _parted(self, output: Array) -> Array:
        """Return a view of the output in which each axis is split into (copy, element)."""
        reps = self._all_reps(output.ndim)
        parts = ((n, dim // n) for n, dim in zip(reps, output.shape, strict=True))
        return output.reshape(tuple(itertools.chain.from_iterable(parts)))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, y = inputs[0], self._parted(outputs[0])
        wide = (1,) * (outputs[0].ndim - x.ndim) + x.shape
        run.xp.copyto(y, x.reshape(tuple(itertools.chain.from_iterable((1, dim) for dim in wide))))

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
        dy = self._parted(out_grads[0])
        target = dx.reshape((1,) * (dy.ndim // 2 - dx.ndim) + dx.shape)
        copies = tuple(range(0, dy.ndim, 2))
        add_up(run, dy, copies, target)


@register("repeat", "_np_repeat")
class Repeat(Operator):
    """Repeat each element along an axis, or of the flattened data."""

    is_linear: ClassVar[bool] = True
    monitors_data: ClassVar[bool] = True

    repeats: int = attribute(minimum=1, doc="number of repetitions of each element")
    axis: int | None = attribute(default=None, doc="the axis; None to flatten the data")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if self.axis is None:
            size = shape_size(data) * self.repeats
            return inputs, [self.expect("output", outputs[0], (size,))]
        axis = normalize_axis(self.axis, len(data))
        shape = _replace(data, axis, data[axis] * self.repeats)
        return inputs, [self.expect("output", outputs[0], shape)]

    def backward_reads(self) -> Reads:
        return Reads()

    def _parted(self, output: Array, data: Shape) -> tuple[Array, int]:
        """Return a view of the output that has a separate axis for the copies, and that axis."""
        if self.axis is None:
            return output.reshape((*data, self.repeats)), len(data)
        axis = normalize_axis(self.axis, len(data)) + 1
        return output.reshape((*data[:axis], self.repeats, *data[axis:])), axis

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        y, axis = self._parted(outputs[0], inputs[0].shape)
        run.xp.copyto(y, run.xp.expand_dims(inputs[0], axis))

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
        dy, axis = self._parted(out_grads[0], dx.shape)
        add_up(run, dy, axis, dx)


def _replace(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])
