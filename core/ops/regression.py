"""Output layers for regression: forward computes a prediction, backward the gradient of its error.

They ignore the incoming gradient; labels get no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..errors import ShapeError
from ..types import Array, Shape, is_known, shape_size
from .attributes import attribute
from .implied_loss import ImpliedLoss, absolute_error, binary_cross_entropy, squared_error
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"]


class _Regression(Operator):
    """The gradient is ``grad_scale · error / outputs per sample``, by default for the squared
    error.

    The label has data's shape, or another shape with as many elements per sample.
    """

    # As in MXNet, where these operators, unlike most, do not check the names of attributes.
    ignores_unknown: ClassVar[bool] = True

    grad_scale: float

    def input_names(self) -> tuple[str, ...]:
        return ("data", "label")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        label = inputs[1]
        if data is None:
            return inputs, outputs
        if label is None:
            # A single number per sample may be given as a vector.
            label = data[:1] if len(data) == 2 and data[1] == 1 else data
        elif not (is_known(data) and is_known(label)):
            if len(label) == len(data):
                label = data = self.expect("label", label, data)
        elif label[:1] != data[:1] or shape_size(label) != shape_size(data):
            raise ShapeError(f"label has shape {label}, expected {data} like data")
        return [data, label], [data]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False, inputs=(1,), outputs=(0,))

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
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
        out, data_grad = outputs[0], in_grads[0]
        if data_grad is None:
            return
        run.xp.subtract(out, inputs[1].reshape(out.shape), out=data_grad)
        self.of_error(run, data_grad)
        data_grad *= self.grad_scale / (shape_size(out.shape[1:]) or 1)

    def of_error(self, run: Run, error: Array) -> None:
        """Convert prediction minus label to the gradient, in place."""


@register("LinearRegressionOutput", "_sparse_LinearRegressionOutput")
class LinearRegressionOutput(_Regression):
    """Return data unchanged, with the gradient of the squared error: ``data - label``.

    The gradient is multiplied by ``grad_scale`` and divided by the outputs per sample.
    """

    grad_scale: float = attribute(1.0, doc="factor of the gradient")

    def implied_loss(self) -> ImpliedLoss | None:
        return squared_error

    def is_identity(self, is_train: bool) -> bool:
        return not is_train


@register("MAERegressionOutput", "_sparse_MAERegressionOutput")
class MAERegressionOutput(_Regression):
    """Return data unchanged, with the gradient of the absolute error: the sign of data - label.

    Where both are equal the gradient is -1, as in MXNet. It is multiplied by ``grad_scale`` and
    divided by the outputs per sample.
    """

    grad_scale: float = attribute(1.0, doc="factor of the gradient")

    def implied_loss(self) -> ImpliedLoss | None:
        return absolute_error

    def is_identity(self, is_train: bool) -> bool:
        return not is_train

    def of_error(self, run: Run, error: Array) -> None:
        run.xp.greater(error, 0, out=error)
        error *= 2
        error -= 1


@register("LogisticRegressionOutput", "_sparse_LogisticRegressionOutput")
class LogisticRegressionOutput(_Regression):
    """Apply the logistic function, with the gradient of the cross entropy: ``output - label``.

    The gradient is multiplied by ``grad_scale`` and divided by the outputs per sample.
    """

    grad_scale: float = attribute(1.0, doc="factor of the gradient")

    def implied_loss(self) -> ImpliedLoss | None:
        return binary_cross_entropy

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, out = run.xp, outputs[0]
        # tanh does not overflow, unlike exp.
        xp.multiply(inputs[0], 0.5, out=out)
        xp.tanh(out, out=out)
        out *= 0.5
        out += 0.5
