"""Operators on padded sequences: (time, batch, ...), or (batch, time, ...) with axis 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import ShapeError
from ..types import Array, DType, Shape, merge_dtypes, shape_size
from .attributes import attribute
from .lookup import read_at
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["SequenceLast", "SequenceMask", "SequenceReverse"]

_USES_LENGTH = "whether lengths are an input; otherwise all sequences have full length"
_AXIS = "the time axis, 0 or 1; the other is the batch"
_FEW_SEQUENCES = 1024
"""Up to this many sequences, filling the end of each in a loop is faster than a mask."""


class _OnSequences(Operator):
    """Base: ``data`` holds sequences along an axis, ``sequence_length`` (batch,) their lengths."""

    all_inputs = ("data", "sequence_length")

    use_sequence_length: bool
    axis: int

    def input_names(self) -> tuple[str, ...]:
        return ("data", "sequence_length") if self.use_sequence_length else ("data",)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if self.axis not in (0, 1):
            raise ShapeError(f"axis is {self.axis}; expected 0 or 1")
        data = self.complete_data(inputs[0], outputs[0])
        if data is None:
            return inputs, outputs
        if len(data) < 2:
            raise ShapeError(f"data has shape {data}, expected at least 2 dimensions")
        completed: list[Shape | None] = [data]
        if self.use_sequence_length:
            batch = data[1 - self.axis]
            lengths = self.expect("sequence_length", inputs[1], (batch,))
            completed.append(lengths)
        return completed, [self.expect("output", outputs[0], self.output_shape(data))]

    def complete_data(self, data: Shape | None, output: Shape | None) -> Shape | None:
        """Return the data's shape, as far as it follows from data and output."""
        return self.expect("data", data, output)

    def output_shape(self, data: Shape) -> Shape:
        """Return the output's shape."""
        return data

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = merge_dtypes(inputs[0], outputs[0])
        return [common, *(dtype or common for dtype in inputs[1:])], [common]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(1,)) if self.use_sequence_length else Reads()

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def lengths(self, run: Run, given: Array, steps: int) -> Array:
        """Return the lengths as int64, clipped to the number of steps."""
        whole = run.scratch(given.shape, "int64")
        run.xp.copyto(whole, given, casting="unsafe")
        run.xp.clip(whole, 0, steps, out=whole)
        return whole


@register("SequenceMask", "_npx_sequence_mask")
@implements(kinds.SEQUENCE_MASK)
class SequenceMask(_OnSequences):
    """Replace everything beyond each sequence's end by ``value``: data's shape and dtype."""

    names_outputs: ClassVar[bool] = True

    use_sequence_length: bool = attribute(default=False, doc=_USES_LENGTH)
    value: float = attribute(default=0.0, doc="the value beyond a sequence's end")
    axis: int = attribute(default=0, doc=_AXIS)

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def _fill_beyond(self, run: Run, array: Array, lengths: Array, value: float) -> None:
        steps = array.shape[self.axis]
        whole = self.lengths(run, lengths, steps)
        if len(whole) <= _FEW_SEQUENCES:
            by_sequence = run.xp.moveaxis(array, self.axis, 1)
            for sequence, length in zip(by_sequence, whole.tolist(), strict=True):
                sequence[length:] = value
            return
        time = run.xp.arange(steps)
        beyond = run.scratch(array.shape[:2], "bool")
        by_time = beyond if self.axis == 0 else beyond.T
        run.xp.greater_equal(time[:, None], whole, out=by_time)
        wide = beyond.reshape(beyond.shape + (1,) * (array.ndim - 2))
        run.xp.copyto(array, value, where=run.xp.broadcast_to(wide, array.shape))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])
        if self.use_sequence_length:
            self._fill_beyond(run, outputs[0], inputs[1], self.value)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        run.xp.copyto(in_grads[0], out_grads[0])
        if self.use_sequence_length:
            self._fill_beyond(run, in_grads[0], inputs[1], 0)


@register("SequenceLast")
@implements(kinds.SEQUENCE_LAST)
class SequenceLast(_OnSequences):
    """The last element of each sequence: (time, batch, ...) gives (batch, ...)."""

    names_outputs: ClassVar[bool] = True

    use_sequence_length: bool = attribute(default=False, doc=_USES_LENGTH)
    axis: int = attribute(default=0, doc=_AXIS)

    def complete_data(self, data: Shape | None, output: Shape | None) -> Shape | None:
        if data is None or output is None or len(output) != len(data) - 1:
            return data
        filled = (*output[: self.axis], data[self.axis], *output[self.axis :])
        return self.expect("data", data, filled)

    def output_shape(self, data: Shape) -> Shape:
        return data[: self.axis] + data[self.axis + 1 :]

    def _rows(self, run: Run, shape: Shape, lengths: Array | None) -> Array:
        """Return the flat position of each sequence's last step over the first two axes."""
        steps, batch = shape[self.axis], shape[1 - self.axis]
        rows = run.scratch((batch,), "int64")
        if lengths is None:
            rows.fill(steps - 1)
        else:
            run.xp.subtract(self.lengths(run, lengths, steps), 1, out=rows)
            # A sequence of length 0 gives its first step; MXNet reads what lies before the data.
            run.xp.maximum(rows, 0, out=rows)
        number = run.xp.arange(batch)
        if self.axis == 0:
            rows *= batch
            rows += number
        else:
            rows += number * steps
        return rows

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data = inputs[0]
        rows = self._rows(run, data.shape, inputs[1] if self.use_sequence_length else None)
        size = shape_size(data.shape[2:])
        table = data.reshape(data.shape[0] * data.shape[1], size)
        if data.size:
            read_at(run, table, rows, outputs[0].reshape(rows.shape[0], size))
        else:
            outputs[0].fill(0)

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
        rows = self._rows(run, gradient.shape, inputs[1] if self.use_sequence_length else None)
        gradient.fill(0)
        if not gradient.size:
            return
        first, second = rows // gradient.shape[1], rows % gradient.shape[1]
        gradient[first, second] = out_grads[0]


@register("SequenceReverse")
class SequenceReverse(_OnSequences):
    """Reverse each sequence; elements beyond its end stay in place. Only for time along axis 0."""

    names_outputs: ClassVar[bool] = True

    use_sequence_length: bool = attribute(default=False, doc=_USES_LENGTH)
    axis: int = attribute(default=0, doc=_AXIS)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if self.axis != 0:
            raise ShapeError(f"axis is {self.axis}; SequenceReverse takes time along axis 0 only")
        return super().infer_shape(inputs, outputs)

    def _reverse(self, run: Run, x: Array, lengths: Array | None, out: Array) -> None:
        if lengths is None or not x.size:
            run.xp.copyto(out, x[::-1])
            return
        steps, batch = x.shape[:2]
        time = run.xp.arange(steps)[:, None]
        whole = self.lengths(run, lengths, steps)
        rows = run.scratch((steps, batch), "int64")
        run.xp.subtract(whole - 1, time, out=rows)
        beyond = run.scratch((steps, batch), "bool")
        run.xp.less(rows, 0, out=beyond)
        run.xp.copyto(rows, time, where=beyond)
        rows *= batch
        rows += run.xp.arange(batch)
        table = (steps * batch, -1)
        read_at(run, x.reshape(table), rows.reshape(-1), out.reshape(table))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        lengths = inputs[1] if self.use_sequence_length else None
        self._reverse(run, inputs[0], lengths, outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        lengths = inputs[1] if self.use_sequence_length else None
        self._reverse(run, out_grads[0], lengths, in_grads[0])
