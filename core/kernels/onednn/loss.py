"""The gradient of the softmax loss layer: probabilities minus labels, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...capabilities.arrays import SoftmaxOutput
from ...types import Array, Shape, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .constants import Algorithm, Argument
from .kernel import are_float32, present
from .memory import plain
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["LossRows", "softmax_output_backward"]

_FLOAT32, _INT64 = np.dtype("float32"), np.dtype("int64")


class LossRows(NamedTuple):
    """The rows of probabilities, one for each label, which is the index of a class.

    Attributes:
        samples, classes, places: the shape; a row lies along axis 1. There are several places with
            ``multi_output`` alone.
        labels: number of labels; may exceed the rows.
        scale: factor of the gradient, before it is divided by the number of valid labels.
    """

    samples: int
    classes: int
    places: int
    labels: int
    scale: float

    @classmethod
    def of(cls, request: KernelRequest[SoftmaxOutput]) -> LossRows | None:
        """Return the rows of a request for the gradient; None if the labels are probabilities, or
        an option modifies the gradient in a way that no kernel knows."""
        operator, out, label = request.operator, request.outputs[0], request.inputs[1]
        if not are_float32(request) or out is None or label is None:
            return None
        if operator.out_grad or (operator.smooth_alpha and not operator.multi_output):
            return None
        if label.shape == out.shape:
            return None
        samples, classes, places = out.shape[0], shape_size(out.shape[1:]), 1
        if operator.multi_output:
            classes, places = out.shape[1], shape_size(out.shape[2:])
        elif operator.preserve_shape:
            samples, classes = shape_size(out.shape[:-1]), out.shape[-1]
        labels = shape_size(label.shape)
        divisor = 1
        if operator.normalization != "valid":
            of_batch = operator.normalization == "batch"
            if operator.multi_output:
                divisor = places * samples if of_batch else places
            elif of_batch:
                divisor = labels
        return cls(samples, classes, places, labels, operator.grad_scale / divisor)


class _SoftmaxOutputBackward(Kernel):
    """The gradient: all probabilities are multiplied by their row's factor; then this factor is
    subtracted from the element of the row's label, found by flat index."""

    name = "onednn:softmax_output_backward"
    backward_inputs = (1,)
    backward_outputs = (0,)
    inplace = ()
    uses_scratch = False

    def __init__(self, operator: SoftmaxOutput, rows: LossRows) -> None:
        self._operator, self._rows = operator, rows
        samples, classes, places, *_ = rows
        desc, factors = plain((samples, classes, places)), plain((samples, 1, places))
        if places == 1:
            desc, factors = plain((samples, classes)), plain((samples, 1))
        self._scale = Primitive.of("binary", Algorithm.BINARY_MULTIPLY, desc, factors, desc)
        self.scratchpad_bytes = scratchpad_bytes(self._scale)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that writes the gradient."""
        samples, classes, places_each, *_ = self._rows
        rows = samples * places_each
        # If there are more labels than rows, MXNet reads the first ones only.
        all_labels = present(arrays.inputs[1]).reshape(-1)
        labels = all_labels[:rows]
        grad = present(arrays.in_grads[0])
        flat = grad.reshape(-1)
        allocate = resources.allocate
        factors = allocate((rows, 1), _FLOAT32)
        share, chosen = (allocate((rows,), _FLOAT32) for _ in range(2))
        numbers, places, starts = (allocate((rows,), _INT64) for _ in range(3))
        grid = starts.reshape(samples, places_each)
        step = classes * places_each
        np.add(np.arange(samples)[:, None] * step, np.arange(places_each), out=grid)
        row_factors = factors.reshape(-1)
        scale = launch(
            self._scale,
            {Argument.SRC: present(arrays.outputs[0]), Argument.SRC_1: factors, Argument.DST: grad},
            resources,
        )
        write_factors = self._factors(row_factors, labels, all_labels, allocate)

        def call() -> None:
            write_factors()
            scale()
            np.copyto(numbers, labels, casting="unsafe")
            np.maximum(numbers, 0, out=places)  # twice as fast as np.clip on few numbers
            np.minimum(places, classes - 1, out=places)
            # For a label that is not a valid class, nothing is subtracted.
            np.equal(numbers, places, out=share, casting="unsafe")
            np.multiply(share, row_factors, out=share)
            if places_each > 1:
                np.multiply(places, places_each, out=places)
            np.add(places, starts, out=places)
            # All places are valid; with its default mode, NumPy buffers the output to check them.
            np.take(flat, places, out=chosen, mode="clip")
            np.subtract(chosen, share, out=chosen)
            flat[places] = chosen

        return call

    def _factors(
        self,
        factors: Array,
        labels: Array,
        all_labels: Array,
        allocate: Callable[[Shape, Any], Array],
    ) -> Callable[[], None]:
        """Return a closure that writes the factor of each row."""
        operator = self._operator
        fixed = self._rows.scale
        factors.fill(fixed)
        ignored, counts = operator.use_ignore, operator.normalization == "valid"
        if not ignored and not counts:
            return lambda: None
        valid = allocate((self._rows.labels,), np.dtype("bool"))

        def write() -> None:
            np.not_equal(all_labels, operator.ignore_label, out=valid)
            scale = fixed / max(int(np.count_nonzero(valid)), 1) if counts else fixed
            if ignored:
                np.multiply(valid[: len(factors)], np.float32(scale), out=factors)
            else:
                factors.fill(scale)

        return write


def softmax_output_backward(request: KernelRequest[SoftmaxOutput]) -> Kernel | None:
    """Prepare the gradient for labels that are class indices."""
    rows = LossRows.of(request)
    return None if rows is None else _SoftmaxOutputBackward(request.operator, rows)
