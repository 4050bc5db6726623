"""Activation functions chosen by an attribute: Activation, LeakyReLU, SoftmaxActivation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.functions import Function, Pointwise
from ..capabilities.kinds import implements
from ..capabilities.quantized import QuantizedForm
from ..errors import ShapeError
from ..types import Array, Shape
from . import special
from .attributes import attribute
from .derivatives import Functions, Tensor
from .elemwise_unary import sigmoid
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .softmax import write_softmax, write_softmax_gradient
from .summation import add_up

__all__ = ["Activation", "LeakyReLU", "SoftmaxActivation"]

_FUNCTIONS = {
    "relu": Pointwise(Function.RELU, keeps_nan=False),
    "sigmoid": Pointwise(Function.SIGMOID),
    "softrelu": Pointwise(Function.SOFT_RELU, 1.0),
    "tanh": Pointwise(Function.TANH),
}
"""By ``act_type`` of Activation. Like MXNet's, this ReLU turns NaN into 0."""

# The fixed point with mean 0 and variance 1 (Klambauer et al., 2017).
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@register("Activation", "_npx_activation")
@implements(kinds.POINTWISE)
class Activation(Operator):
    """Apply ``relu``, ``sigmoid``, ``tanh``, ``softrelu`` (log(1 + e^x)) or ``softsign``
    (x / (1 + |x|)) to each element of floating-point data of any shape."""

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm("_contrib_quantized_act")
    names_outputs: ClassVar[bool] = True

    act_type: str = attribute(
        choices=("relu", "sigmoid", "tanh", "softrelu", "softsign"), doc="the function"
    )

    def pointwise(self) -> Pointwise | None:
        return _FUNCTIONS.get(self.act_type)

    def on_bytes(self) -> QuantizedForm | None:
        return self.quantized_form if self.act_type == "relu" else None

    def is_elementwise(self) -> bool:
        return True

    def backward_reads(self) -> Reads:
        # All derivatives but that of softsign follow from the output, which may therefore replace
        # the input.
        return Reads(inputs=(0,)) if self.act_type == "softsign" else Reads(outputs=(0,))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        # ``forward`` of softsign writes 1 + |x| to the output and then reads x again.
        return () if self.act_type == "softsign" else ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def derivative(
        self,
        f: Functions,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        out_grads: Sequence[Tensor],
    ) -> Sequence[Tensor | None] | None:
        x, y, dy = inputs[0], outputs[0], out_grads[0]
        match self.act_type:
            case "relu":
                return [dy * (y > 0)]
            case "sigmoid":
                return [dy * (y * (1 - y))]
            case "tanh":
                return [dy * (1 - y * y)]
            case "softrelu":
                return [dy * f.sigmoid(x)]
        return [dy * (1 / f.square(1 + f.abs(x)))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, x, y = run.xp, inputs[0], outputs[0]
        match self.act_type:
            case "relu":
                # Unlike maximum, fmax turns NaN into 0, as MXNet does.
                xp.fmax(x, 0, out=y)
            case "tanh":
                xp.tanh(x, out=y)
            case "sigmoid":
                sigmoid(run, x, y)
            case "softrelu":
                # log(e^x + e^0), which does not overflow for large x.
                xp.logaddexp(x, 0, out=y)
            case _:
                xp.abs(x, out=y)
                y += 1
                xp.divide(x, y, out=y)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, dy, dx = run.xp, out_grads[0], in_grads[0]
        slope = run.scratch(dy.shape, dy.dtype)
        match self.act_type:
            case "relu":
                xp.greater(outputs[0], 0, out=slope)
            case "tanh":
                xp.multiply(outputs[0], outputs[0], out=slope)
                xp.subtract(1, slope, out=slope)
            case "sigmoid":
                xp.subtract(1, outputs[0], out=slope)
                slope *= outputs[0]
            case "softrelu":
                # sigmoid(x) = 1 - exp(-y) for y = log(1 + e^x); expm1 is accurate for small y.
                xp.negative(outputs[0], out=slope)
                xp.expm1(slope, out=slope)
                xp.negative(slope, out=slope)
            case _:
                xp.abs(inputs[0], out=slope)
                slope += 1
                slope *= slope
                xp.reciprocal(slope, out=slope)
        xp.multiply(dy, slope, out=dx)


@register("LeakyReLU", "_npx_leaky_relu")
@implements(kinds.LEAKY_RELU)
class LeakyReLU(Operator):
    """Apply a variant of ReLU: (nearly) the identity for positive x, and for negative x:

    ``leaky``: slope · x.
    ``prelu``: gamma · x, with one gamma for each channel (axis 1), for each sample and channel, or
    one for all.
    ``rrelu``: r · x, with r drawn for every element from [lower_bound, upper_bound] in training,
    and the mean of the two in inference; a second output holds r.
    ``elu``: slope · (exp(x) - 1).
    ``selu``: the same, scaled to keep mean 0 and variance 1 (Klambauer et al., 2017). The gradient
    is MXNet's, scale · (alpha + output), though the derivative is scale · alpha + output.
    ``gelu``: x · Φ(x), for all x; Φ is the normal distribution's cumulative probability.
    """

    names_outputs: ClassVar[bool] = True

    all_inputs: ClassVar[tuple[str, ...]] = ("data", "gamma")
    uses_random: ClassVar[bool] = True

    act_type: str = attribute(
        "leaky",
        choices=("elu", "gelu", "leaky", "prelu", "rrelu", "selu"),
        doc="the function of what is negative",
    )
    slope: float = attribute(0.25, doc="of leaky; alpha of elu")
    lower_bound: float = attribute(0.125, doc="least slope that rrelu draws")
    upper_bound: float = attribute(0.334, doc="greatest slope that rrelu draws")

    @property
    def has_slopes(self) -> bool:
        """Whether the second input holds slopes, one for each channel."""
        return self.act_type == "prelu"

    def input_names(self) -> tuple[str, ...]:
        return ("data", "gamma") if self.act_type == "prelu" else ("data",)

    def variable_initializers(self) -> Mapping[str, str]:
        return {"gamma": '["Constant", {"value": 0.25}]'} if self.act_type == "prelu" else {}

    def output_names(self) -> tuple[str, ...]:
        return ("output", "mask") if self.act_type == "rrelu" else ("output",)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        if self.act_type != "prelu" or data is None:
            return [data, *inputs[1:]], [data] * len(outputs)
        if not data:
            raise ShapeError("data has shape (); prelu needs (batch, channels, ...)")
        gamma = inputs[1]
        if gamma is None or 0 in gamma:
            gamma = self.expect("gamma", gamma, (data[min(1, len(data) - 1)],))
        assert gamma is not None
        _gamma_view(gamma, data)
        return [data, gamma], [data]

    def is_elementwise(self) -> bool:
        return self.act_type not in ("prelu", "rrelu")

    def pointwise(self) -> Pointwise | None:
        match self.act_type:
            case "leaky":
                return Pointwise(Function.RELU, self.slope)
            case "elu":
                return Pointwise(Function.ELU, self.slope)
            case "gelu":
                return Pointwise(Function.GELU)
        return None

    def backward_reads(self) -> Reads:
        match self.act_type:
            case "prelu":
                return Reads(inputs=(0, 1))
            case "gelu":
                return Reads(inputs=(0,))
            case "rrelu":
                return Reads(outputs=(0, 1))
        return Reads(outputs=(0,))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, out = run.xp, inputs[0], outputs[0]
        below = run.scratch(data.shape, data.dtype)
        if self.act_type == "gelu":
            _normal_probability(run, data, below)
            xp.multiply(data, below, out=out)
            return
        xp.minimum(data, 0, out=below)
        match self.act_type:
            case "leaky":
                below *= self.slope
            case "prelu":
                below *= inputs[1].reshape(_gamma_view(inputs[1].shape, data.shape))
            case "rrelu":
                self._draw(run, outputs[1])
                below *= outputs[1]
            case _:
                xp.expm1(below, out=below)
                below *= _SELU_ALPHA if self.act_type == "selu" else self.slope
        xp.maximum(data, 0, out=out)
        out += below
        if self.act_type == "selu":
            out *= _SELU_SCALE

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad, data_grad = out_grads[0], in_grads[0]
        if self.act_type == "prelu" and in_grads[1] is not None:
            self._gamma_gradient(run, grad, inputs[0], in_grads[1])
        if data_grad is None:
            return
        slope = run.scratch(grad.shape, grad.dtype)
        if self.act_type == "gelu":
            _gelu_slope(run, inputs[0], slope)
        else:
            # Output and data have the same sign, so either one can be used.
            seen = inputs[0] if self.act_type == "prelu" else outputs[0]
            self._slope_below(run, inputs, outputs, slope)
            positive = run.scratch(grad.shape, "bool")
            if self.act_type in ("prelu", "selu"):
                run.xp.greater(seen, 0, out=positive)
            else:  # MXNet's oneDNN kernels for leaky and elu treat NaN as positive.
                run.xp.less_equal(seen, 0, out=positive)
                run.xp.logical_not(positive, out=positive)
            run.xp.copyto(slope, _SELU_SCALE if self.act_type == "selu" else 1, where=positive)
        run.xp.multiply(grad, slope, out=data_grad)

    def _slope_below(
        self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array], slope: Array
    ) -> None:
        """Write the derivative for data below zero."""
        match self.act_type:
            case "leaky":
                slope[...] = self.slope
            case "prelu":
                run.xp.copyto(slope, inputs[1].reshape(_gamma_view(inputs[1].shape, slope.shape)))
            case "rrelu":
                run.xp.copyto(slope, outputs[1])
            case "elu":
                # The derivative slope * exp(x), from y = slope * (exp(x) - 1).
                run.xp.add(outputs[0], self.slope, out=slope)
            case _:
                run.xp.add(outputs[0], _SELU_ALPHA, out=slope)
                slope *= _SELU_SCALE

    def _draw(self, run: Run, slope: Array) -> None:
        if run.is_train:
            run.random.uniform(slope, self.lower_bound, self.upper_bound)
        else:
            slope[...] = (self.lower_bound + self.upper_bound) / 2

    def _gamma_gradient(self, run: Run, grad: Array, data: Array, gamma_grad: Array) -> None:
        # The derivative by gamma is min(x, 0).
        product = run.scratch(grad.shape, grad.dtype)
        run.xp.minimum(data, 0, out=product)
        product *= grad
        kept = gamma_grad.reshape(_gamma_view(gamma_grad.shape, grad.shape))
        axes = tuple(axis for axis, length in enumerate(kept.shape) if length == 1)
        add_up(run, product, axes, kept)


@register("SoftmaxActivation")
@implements(kinds.SOFTMAX_ACTIVATION)
class SoftmaxActivation(Operator):
    """Softmax over the last axis (``instance``) or over axis 1 (``channel``).

    The gradient is computed along axis 1 in both modes, as in MXNet; ``instance`` is intended for
    data with two axes, where that makes no difference.
    """

    names_outputs: ClassVar[bool] = True

    mode: str = attribute(
        "instance",
        choices=("channel", "instance"),
        doc="over each example, or over the channels at each position",
    )

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        needed = 3 if self.mode == "channel" else 1
        if data is not None and len(data) < needed:
            raise ShapeError(
                f"data has shape {data}; mode {self.mode!r} needs {needed} axes or more"
            )
        return [data], [data]

    def backward_reads(self) -> Reads:
        return Reads(outputs=(0,))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def inplace_backward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        axis = 1 if self.mode == "channel" else inputs[0].ndim - 1
        write_softmax(run, inputs[0], axis, outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        axis = min(1, outputs[0].ndim - 1)
        write_softmax_gradient(run, out_grads[0], outputs[0], axis, in_grads[0])


def _gamma_view(gamma: Shape, data: Shape) -> Shape:
    """Return gamma's shape for broadcasting: its last axes match the data's first two."""
    left, view = list(gamma), [1] * len(data)
    for axis in reversed(range(min(2, len(data)))):
        if left and (not data[axis] or left[-1] in (1, data[axis])):
            view[axis] = left.pop()
    if left:
        raise ShapeError(f"gamma has shape {gamma}, which does not broadcast to data {data}")
    return tuple(view)


def _normal_probability(run: Run, data: Array, out: Array) -> None:
    scaled = run.scratch(data.shape, data.dtype)
    run.xp.multiply(data, 1 / math.sqrt(2), out=scaled)
    special.erf(run, scaled, out)
    out += 1
    out *= 0.5


def _gelu_slope(run: Run, data: Array, slope: Array) -> None:
    """Write Φ(x) + x · φ(x)."""
    density = run.scratch(data.shape, data.dtype)
    run.xp.multiply(data, data, out=density)
    density *= -0.5
    run.xp.exp(density, out=density)
    density *= data
    density *= 1 / math.sqrt(2 * math.pi)
    _normal_probability(run, data, slope)
    slope += density
