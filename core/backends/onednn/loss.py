"""The gradient of the softmax loss layer: probabilities minus labels, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...capabilities.arrays import SoftmaxOutput
from ...types import Array, Shape, shape_size
from ..kernels import Kernel, KernelArrays, KernelRequest, KernelResources
from .constants import Algorithm, Argument
from .kernel import are_float32, present
from .memory import plain
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["softmax_output_backward"]

_FLOAT32, _INT64 = np.dtype("float32"), np.dtype("int64")


class _SoftmaxOutputBackward(Kernel):
    """The gradient for labels that are class indices.

    A row holds the probabilities of one label: with ``multi_output``, those of one place along
    axis 1. All are multiplied by their row's factor; then this factor is subtracted from the
    element of the row's label, found by flat index.
    """

    name = "onednn:softmax_output_backward"
    backward_inputs = (1,)
    backward_outputs = (0,)
    inplace = ()
    uses_scratch = False

    def __init__(self, operator: SoftmaxOutput, shape: Shape, label: Shape) -> None:
        self._operator = operator
        self._shape = (shape[0], shape_size(shape[1:]), 1)
        if operator.multi_output:
            self._shape = (shape[0], shape[1], shape_size(shape[2:]))
        elif operator.preserve_shape:
            self._shape = (shape_size(shape[:-1]), shape[-1], 1)
        self._labels = shape_size(label)
        samples, _, places = self._shape
        desc, factors = plain(self._shape), plain((samples, 1, places))
        if places == 1:
            desc, factors = plain(self._shape[:2]), plain((samples, 1))
        self._scale = Primitive.of("binary", Algorithm.BINARY_MULTIPLY, desc, factors, desc)
        self.scratchpad_bytes = scratchpad_bytes(self._scale)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that writes the gradient."""
        samples, classes, places_each = self._shape
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
            np.take(flat, places, out=chosen, mode="clip")
            np.subtract(chosen, share, out=chosen)
            flat[places] = chosen

        return call

    def _divisor(self) -> int:
        samples, _, places = self._shape
        of_batch = self._operator.normalization == "batch"
        if self._operator.normalization == "valid":
            return 1
        if self._operator.multi_output:
            return places * samples if of_batch else places
        return self._labels if of_batch else 1

    def _factors(
        self,
        factors: Array,
        labels: Array,
        all_labels: Array,
        allocate: Callable[[Shape, Any], Array],
    ) -> Callable[[], None]:
        """Return a closure that writes the factor of each row."""
        operator = self._operator
        fixed = operator.grad_scale / self._divisor()
        factors.fill(fixed)
        ignored, counts = operator.use_ignore, operator.normalization == "valid"
        if not ignored and not counts:
            return lambda: None
        valid = allocate((self._labels,), np.dtype("bool"))

        def write() -> None:
            np.not_equal(all_labels, operator.ignore_label, out=valid)
            scale = fixed / max(int(np.count_nonzero(valid)), 1) if counts else fixed
            if ignored:
                np.multiply(valid[: len(factors)], np.float32(scale), out=factors)
            else:
                factors.fill(scale)

        return write


def softmax_output_backward(request: KernelRequest[SoftmaxOutput]) -> Kernel | None:
    """Prepare the gradient if labels are class indices and no option modifies it."""
    operator, out, label = request.operator, request.outputs[0], request.inputs[1]
    if not are_float32(request) or out is None or label is None:
        return None
    if operator.out_grad or (operator.smooth_alpha and not operator.multi_output):
        return None
    if label.shape == out.shape:
        return None
    return _SoftmaxOutputBackward(operator, out.shape, label.shape)
