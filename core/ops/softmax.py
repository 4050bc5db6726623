"""Softmax, its logarithm, and softmin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, TypeInferenceError
from ..types import Array, DType, Shape, is_floating, lowest, normalize_axis
from .attributes import attribute
from .derivatives import Functions, Tensor
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .summation import add_up

__all__ = [
    "LogSoftmax",
    "Softmax",
    "Softmin",
    "positions",
    "write_softmax",
    "write_softmax_gradient",
]


def write_softmax(run: Run, data: Array, axis: int, out: Array) -> None:
    """Write the softmax along an axis; ``out`` may be ``data``."""
    if not out.size:
        return
    xp = run.xp
    reduced = _reduced(run, out, axis)
    xp.max(data, axis=axis, keepdims=True, out=reduced)
    xp.subtract(data, reduced, out=out)
    xp.exp(out, out=out)
    add_up(run, out, axis, reduced)
    out /= reduced


def write_softmax_gradient(run: Run, grad: Array, out: Array, axis: int, data_grad: Array) -> None:
    """Write ``out · (grad - sum(grad · out))``; ``data_grad`` may be ``grad``."""
    xp = run.xp
    product = run.scratch(out.shape, out.dtype)
    along = _reduced(run, out, axis)
    xp.multiply(grad, out, out=product)
    add_up(run, product, axis, along)
    xp.subtract(grad, along, out=data_grad)
    data_grad *= out


def positions(run: Run, count: int, dtype: DType) -> Array:
    """Return 0, 1, ..., count - 1 in scratch memory."""
    # ``arange`` would allocate an array in every step of a plan.
    numbers = run.scratch((count,), dtype)
    numbers[...] = 1
    run.xp.cumsum(numbers, out=numbers)
    numbers -= 1
    return numbers


def _reduced(run: Run, array: Array, axis: int) -> Array:
    shape = list(array.shape)
    shape[axis] = 1
    return run.scratch(tuple(shape), array.dtype)


class _AlongAxis(Operator):
    """Base: attributes and inference; subclasses compute on data divided by the temperature."""

    axis: int
    temperature: float | None
    dtype: DType | None
    use_length: bool | None

    def __post_init__(self) -> None:
        if self.use_length and "length" not in self.input_names():
            raise AttributeValueError("use_length is True; only softmax supports lengths")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if data is not None:
            normalize_axis(self.axis, len(data))
        return [data, *inputs[1:]], [data]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = inputs[0]
        if self.dtype is None:
            data = self.expect_dtype("data", data, outputs[0])
        if data is not None and not is_floating(data):
            raise TypeInferenceError(f"data has dtype {data}; expected a floating point type")
        output = self.expect_dtype("output", outputs[0], self.dtype or data)
        return [data, *inputs[1:]], [output]

    def backward_reads(self) -> Reads:
        return Reads(outputs=(0,))

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def _cooled(self, run: Run, data: Array, dtype: DType) -> Array:
        """Return data in the output's dtype, divided by the temperature."""
        if self.temperature in (None, 1.0) and data.dtype == dtype:
            return data
        cooled = run.scratch(data.shape, dtype)
        run.xp.copyto(cooled, data)
        if self.temperature is not None:
            cooled /= self.temperature
        return cooled

    def _divide_by_temperature(self, gradient: Array, sign: int = 1) -> None:
        if (self.temperature, sign) not in ((None, 1), (1.0, 1)):
            gradient /= sign * (self.temperature or 1)


@register("softmax", "_npx_softmax")
@implements(kinds.SOFTMAX)
class Softmax(_AlongAxis):
    """``exp(x) / sum(exp(x))`` along an axis, with ``x = data / temperature``.

    With ``use_length``, a second input of data's shape without the axis holds the number of
    elements that count; the others are 0. ``dtype`` is that of the output, by default data's.
    """

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    axis: int = attribute(-1, doc="the axis; negative counts from the end")
    temperature: float | None = attribute(None, doc="divisor of the data; 1 by default")
    dtype: DType | None = attribute(None, doc="dtype of the output; by default that of the data")
    use_length: bool | None = attribute(
        False, doc="whether a second input holds the number of elements that count"
    )

    all_inputs: ClassVar[tuple[str, ...]] = ("data", "length")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "length") if self.use_length else ("data",)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        inputs, outputs = super().infer_shape(inputs, outputs)
        data = inputs[0]
        if self.use_length and data is not None:
            axis = self.axis % len(data)
            inputs[1] = self.expect("length", inputs[1], (*data[:axis], *data[axis + 1 :]))
        return inputs, outputs

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        x, y, dy = inputs[0], outputs[0], out_grads[0]
        if len(inputs) > 1 or self.temperature not in (None, 1.0) or x.dtype != y.dtype:
            return None
        weighted = dy * y
        return [weighted - y * f.sum(weighted, axis=self.axis, keepdims=True)]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        out = outputs[0]
        data = self._cooled(run, inputs[0], out.dtype)
        axis = self.axis % data.ndim
        if not self.use_length:
            write_softmax(run, data, axis, out)
            return
        beyond = self._beyond(run, inputs[1], data.shape, axis)
        run.xp.copyto(out, data)
        # Not -inf: for a length of 0 the difference from the maximum would be NaN.
        run.xp.copyto(out, lowest(out.dtype), where=beyond)
        write_softmax(run, out, axis, out)
        run.xp.copyto(out, 0, where=beyond)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data_grad = in_grads[0]
        if data_grad is not None:
            axis = self.axis % data_grad.ndim
            write_softmax_gradient(run, out_grads[0], outputs[0], axis, data_grad)
            self._divide_by_temperature(data_grad)

    def _beyond(self, run: Run, length: Array, shape: Shape, axis: int) -> Array:
        """Return a mask of the elements that do not count."""
        beyond = run.scratch(shape, "bool")
        along = positions(run, shape[axis], length.dtype).reshape(
            -1, *(1 for _ in shape[axis + 1 :])
        )
        run.xp.greater_equal(along, run.xp.expand_dims(length, axis), out=beyond)
        return beyond


@register("log_softmax", "_npx_log_softmax")
@implements(kinds.LOG_SOFTMAX)
class LogSoftmax(_AlongAxis):
    """The logarithm of the softmax of ``data / temperature`` along an axis: data's shape.

    ``dtype`` is that of the output, by default that of the data, which must be floating point.
    """

    monitors_data: ClassVar[bool] = True

    axis: int = attribute(-1, doc="the axis; negative counts from the end")
    temperature: float | None = attribute(None, doc="divisor of the data; 1 by default")
    dtype: DType | None = attribute(None, doc="dtype of the output; by default that of the data")
    use_length: bool | None = attribute(False, doc="must be False: only softmax supports lengths")

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        x, y, dy = inputs[0], outputs[0], out_grads[0]
        if self.temperature not in (None, 1.0) or x.dtype != y.dtype:
            return None
        return [dy - f.exp(y) * f.sum(dy, axis=self.axis, keepdims=True)]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, out = run.xp, outputs[0]
        if not out.size:
            return
        data = self._cooled(run, inputs[0], out.dtype)
        axis = self.axis % data.ndim
        reduced = _reduced(run, out, axis)
        powers = run.scratch(out.shape, out.dtype)
        xp.max(data, axis=axis, keepdims=True, out=reduced)
        xp.subtract(data, reduced, out=out)
        xp.exp(out, out=powers)
        add_up(run, powers, axis, reduced)
        xp.log(reduced, out=reduced)
        out -= reduced

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad, out, data_grad = run.xp, out_grads[0], outputs[0], in_grads[0]
        axis = self.axis % out.ndim
        share = run.scratch(out.shape, out.dtype)
        total = _reduced(run, out, axis)
        add_up(run, grad, axis, total)
        xp.exp(out, out=share)
        share *= total
        xp.subtract(grad, share, out=data_grad)
        self._divide_by_temperature(data_grad)


@register("softmin")
@implements(kinds.SOFTMIN)
class Softmin(_AlongAxis):
    """The softmax of ``-data / temperature`` along an axis: data's shape.

    ``dtype`` is that of the output, by default that of the data, which must be floating point.
    """

    names_outputs: ClassVar[bool] = True

    axis: int = attribute(-1, doc="the axis; negative counts from the end")
    temperature: float | None = attribute(None, doc="divisor of the data; 1 by default")
    dtype: DType | None = attribute(None, doc="dtype of the output; by default that of the data")
    use_length: bool | None = attribute(False, doc="must be False: only softmax supports lengths")

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, out = inputs[0], outputs[0]
        run.xp.negative(data, out=out)
        if self.temperature is not None:
            out /= self.temperature
        write_softmax(run, out, self.axis % data.ndim, out)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data_grad = in_grads[0]
        if data_grad is not None:
            axis = self.axis % data_grad.ndim
            write_softmax_gradient(run, out_grads[0], outputs[0], axis, data_grad)
            self._divide_by_temperature(data_grad, sign=-1)
