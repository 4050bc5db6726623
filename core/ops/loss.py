"""Output layers: forward computes a prediction, backward the gradient of an implied loss.

All except ``softmax_cross_entropy`` ignore the incoming gradient; labels get no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import ShapeError
from ..types import Array, DType, Shape, shape_size
from .attributes import attribute
from .implied_loss import (
    ImpliedLoss,
    cross_entropy,
    cross_entropy_of_probabilities,
    mean_output,
)
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .softmax import positions, write_softmax

__all__ = ["MakeLoss", "SVMOutput", "SoftmaxCrossEntropy", "SoftmaxOutput", "one_hot"]

_NORMALIZATIONS = ("null", "batch", "valid")


class _Labelled(Operator):
    """An operator with the inputs data and label whose output has data's shape."""

    def input_names(self) -> tuple[str, ...]:
        return ("data", "label")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        label = inputs[1] if data is None else self.infer_label(data, inputs[1])
        return [data, label], [data]

    def infer_label(self, data: Shape, label: Shape | None) -> Shape | None:
        """Return the label's shape: by default that of data without the last axis."""
        return self.expect("label", label, data[:-1])


@register("SoftmaxOutput", "Softmax")
@implements(kinds.SOFTMAX_OUTPUT)
class SoftmaxOutput(_Labelled):
    """Softmax, with the gradient of the cross entropy: ``softmax - one_hot(label)``.

    Classes are along axis 1 (``multi_output``), along the last axis (``preserve_shape``), or else
    along all axes but the first, joined. The label has data's shape without the class axis, or
    data's shape if it holds probabilities.

    The gradient is multiplied by ``grad_scale`` and divided by 1 (``null``), by the number of
    labels (``batch``) or of labels unequal to ``ignore_label`` (``valid``); with ``multi_output``,
    null and batch also divide by the number of positions in a sample, and batch means the batch
    size. With ``use_ignore``, positions labelled ``ignore_label`` get no gradient. ``smooth_alpha``
    is label smoothing: that share of the label's probability moves to the other classes, except
    with ``multi_output``. ``out_grad`` multiplies the gradient by the output: MXNet's manual says
    by the output's gradient, but this is what MXNet 1.9.1 computes.
    """

    names_outputs: ClassVar[bool] = True

    is_costly: ClassVar[bool] = True

    grad_scale: float = attribute(1.0, doc="factor of the gradient")
    ignore_label: float = attribute(-1.0, doc="label of positions to ignore, with use_ignore")
    multi_output: bool = attribute(False, doc="whether classes are along the second axis")
    use_ignore: bool = attribute(False, doc="whether ignore_label has an effect")
    preserve_shape: bool = attribute(False, doc="whether classes are along the last axis")
    normalization: str = attribute(
        "null",
        choices=_NORMALIZATIONS,
        doc="divisor of the gradient: none, the batch size or the number of valid examples",
    )
    out_grad: bool = attribute(False, doc="whether the gradient is multiplied by the output")
    smooth_alpha: float = attribute(
        0.0,
        minimum=0,
        maximum=1,
        doc="share of the label's probability that moves to the other classes",
    )

    def infer_label(self, data: Shape, label: Shape | None) -> Shape | None:
        if label is not None and label == data:
            return label
        if not self.multi_output:
            return self.expect("label", label, data[:-1])
        if len(data) < 2:
            raise ShapeError(f"data has shape {data}; multi_output needs the classes on axis 1")
        flat = (data[0], shape_size(data[2:]))
        if label is None:
            return flat
        for expected in (flat, (data[0], *data[2:]), (data[0], 1, *data[2:])):
            if len(label) == len(expected) and all(
                0 in (n, m) or n == m for n, m in zip(label, expected, strict=True)
            ):
                return self.expect("label", label, expected)
        raise ShapeError(
            f"label has shape {label}, expected {flat} or {(data[0], *data[2:])} for data {data}"
        )

    def implied_loss(self) -> ImpliedLoss | None:
        return self._mean_cross_entropy

    def _mean_cross_entropy(self, output: Array, label: Array | None) -> float:
        assert label is not None
        if label.shape == output.shape:
            return cross_entropy_of_probabilities(output, label)
        ignored = int(self.ignore_label) if self.use_ignore else None
        return cross_entropy(self._view(output), label, ignored)

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False, inputs=(1,), outputs=(0,))

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        write_softmax(run, self._view(inputs[0]), 1, self._view(outputs[0]))

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        label, out, data_grad = inputs[1], outputs[0], in_grads[0]
        if data_grad is None:
            return
        if label.shape == out.shape:
            # As in MXNet, normalization, use_ignore and smooth_alpha have no effect here.
            run.xp.subtract(out, label, out=data_grad)
            data_grad *= self.grad_scale
        else:
            self._cross_entropy_gradient(run, out, label, data_grad)
        if self.out_grad:
            data_grad *= out

    def _cross_entropy_gradient(self, run: Run, out: Array, label: Array, data_grad: Array) -> None:
        out, grad = self._view(out), self._view(data_grad)
        count, _, places = grad.shape
        # As in MXNet: without preserve_shape, only the first labels of data with 3 axes or more
        # count.
        places_label = label.reshape(-1)[: count * places].reshape(count, 1, places)
        is_label = one_hot(run, places_label, grad.shape, 1)
        run.xp.subtract(out, is_label, out=grad)
        if self.smooth_alpha and not self.multi_output:
            self._smooth(run, grad, is_label)
        if self.use_ignore:
            ignored = run.scratch(places_label.shape, "bool")
            run.xp.not_equal(places_label, self.ignore_label, out=ignored)
            grad *= ignored
        grad *= self.grad_scale / self._fixed_divisor(label.size, count, places)
        if self.normalization == "valid":
            valid = run.scratch(label.shape, "bool")
            run.xp.not_equal(label, self.ignore_label, out=valid)
            grad /= _count_or_one(run, valid, grad.dtype).reshape(1, 1, 1)

    def _smooth(self, run: Run, grad: Array, is_label: Array) -> None:
        rest = self.smooth_alpha / (grad.shape[1] - 1)
        share = run.scratch(grad.shape, grad.dtype)
        run.xp.multiply(is_label, self.smooth_alpha + rest, out=share)
        grad += share
        grad -= rest

    def _fixed_divisor(self, labels: int, count: int, places: int) -> int:
        if self.normalization == "valid":
            return 1
        divisor = places if self.multi_output else 1
        if self.normalization == "batch":
            divisor *= count if self.multi_output else labels
        return divisor or 1

    def _view(self, data: Array) -> Array:
        """Return data as (samples, classes, positions)."""
        if self.multi_output:
            return data.reshape(*data.shape[:2], shape_size(data.shape[2:]))
        if self.preserve_shape:
            return data.reshape(shape_size(data.shape[:-1]), data.shape[-1], 1)
        return data.reshape(data.shape[0], shape_size(data.shape[1:]), 1)


@register("softmax_cross_entropy")
@implements(kinds.CROSS_ENTROPY)
class SoftmaxCrossEntropy(Operator):
    """The cross entropy of the data's softmax and the label, summed over the batch: (1,).

    ``data`` is (batch, classes), ``label`` (batch,).
    """

    def input_names(self) -> tuple[str, ...]:
        return ("data", "label")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, label = inputs
        if data is not None and len(data) != 2:
            raise ShapeError(f"data has shape {data}; expected (batch, classes)")
        label = self.expect("label", label, None if data is None else data[:1])
        if data is not None and label is not None:
            data = (label[0], data[1])
        return [data, label], [self.expect("output", outputs[0], (1,))]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, label = run.xp, inputs[0], inputs[1].reshape(-1, 1)
        probability = run.scratch(data.shape, data.dtype)
        write_softmax(run, data, 1, probability)
        probability *= one_hot(run, label, data.shape, 1)
        chosen = run.scratch((data.shape[0],), data.dtype)
        xp.sum(probability, axis=1, out=chosen)
        # MXNet's bound, which its gradient ignores, too.
        xp.maximum(chosen, 1e-8, out=chosen)
        xp.log(chosen, out=chosen)
        xp.sum(chosen, axis=0, keepdims=True, out=outputs[0])
        xp.negative(outputs[0], out=outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data, label, data_grad = inputs[0], inputs[1].reshape(-1, 1), in_grads[0]
        if data_grad is not None:
            write_softmax(run, data, 1, data_grad)
            run.xp.subtract(data_grad, one_hot(run, label, data.shape, 1), out=data_grad)
            data_grad *= out_grads[0]


@register("MakeLoss")
class MakeLoss(Operator):
    """Return data, which is a loss, unchanged; its gradient is ``grad_scale``.

    ``normalization`` divides the gradient by the number of vectors along the last axis (``batch``;
    for data of two axes the batch size), or of elements above ``valid_thresh`` (``valid``).
    """

    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    grad_scale: float = attribute(1.0, doc="factor of the gradient")
    valid_thresh: float = attribute(0.0, doc="elements above this are valid")
    normalization: str = attribute(
        "null",
        choices=_NORMALIZATIONS,
        doc="divisor of the gradient: none, the batch size or the number of valid examples",
    )

    def implied_loss(self) -> ImpliedLoss | None:
        return mean_output

    def is_identity(self, is_train: bool) -> bool:
        # In training the operator must stay for its gradient.
        return not is_train

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False, inputs=(0,) if self.normalization == "valid" else ())

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])

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
        if data_grad is None:
            return
        data_grad[...] = self.grad_scale
        if self.normalization == "batch":
            data_grad /= shape_size(data_grad.shape[:-1])
        elif self.normalization == "valid":
            valid = run.scratch(data_grad.shape, "bool")
            run.xp.greater(inputs[0], self.valid_thresh, out=valid)
            data_grad /= _count_or_one(run, valid, data_grad.dtype)


@register("SVMOutput")
class SVMOutput(_Labelled):
    """Return data unchanged, with the gradient of the one-against-rest hinge loss.

    Classes are along the last axis. The loss is the hinge (``use_linear``) or its square, times
    ``regularization_coefficient``.
    """

    names_outputs: ClassVar[bool] = True

    margin: float = attribute(1.0, doc="distance from which there is no loss")
    regularization_coefficient: float = attribute(1.0, doc="factor of the gradient")
    use_linear: bool = attribute(False, doc="whether the loss is linear, otherwise squared")

    def is_identity(self, is_train: bool) -> bool:
        return not is_train

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False, inputs=(1,), outputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, out, data_grad = run.xp, outputs[0], in_grads[0]
        if data_grad is None:
            return
        label = inputs[1]
        places = xp.nonzero((label > -1) & (label < out.shape[-1]))
        # The score of the labelled class should be above the margin, all others below its negative.
        own = (*places, label[places].astype("int64"))
        lacking = self.margin - out[own]
        xp.add(out, self.margin, out=data_grad)
        if self.use_linear:
            xp.greater(data_grad, 0, out=data_grad)
            data_grad[own] = -(lacking > 0).astype(out.dtype)
        else:
            xp.maximum(data_grad, 0, out=data_grad)
            data_grad *= 2
            data_grad[own] = -2 * xp.maximum(lacking, 0)
        data_grad *= self.regularization_coefficient


def one_hot(run: Run, label: Array, shape: Shape, axis: int) -> Array:
    """Return a mask, in scratch memory, of the positions along the axis that equal the label.

    ``label`` has length 1 along the axis; it is truncated to an integer, as in MXNet. A label out
    of range matches no position.
    """
    xp = run.xp
    whole = run.scratch(label.shape, label.dtype)
    xp.trunc(label, out=whole)
    classes = positions(run, shape[axis], label.dtype).reshape(
        tuple(-1 if i == axis else 1 for i in range(len(shape)))
    )
    is_label = run.scratch(shape, "bool")
    xp.equal(classes, whole, out=is_label)
    return is_label


def _count_or_one(run: Run, mask: Array, dtype: DType) -> Array:
    """Return the number of True elements, but at least 1, with all axes kept."""
    total = run.scratch((1,) * mask.ndim, dtype)
    run.xp.sum(mask, keepdims=True, out=total)
    run.xp.maximum(total, 1, out=total)
    return total
