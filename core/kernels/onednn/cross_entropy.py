"""The cross entropy of softmax and labels, summed over the rows.

Both passes compute the probabilities; those of the labels are picked by flat index.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .constants import Algorithm, Argument, Propagation
from .kernel import are_float32, present
from .memory import MemoryDesc, plain
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["cross_entropy", "cross_entropy_backward"]

_FLOAT32, _INT64 = np.dtype("float32"), np.dtype("int64")
_ALIGNMENT = 64
_SMALLEST = np.float32(1e-8)
"""MXNet's lower limit of probabilities, which keeps logarithms finite."""


class _Labels:
    """Positions of the labels' probabilities in each row.

    Attributes:
        places: indices in the flat array of all probabilities.
        shares: 1, or 0 if a label is not a valid class.
    """

    def __init__(self, labels: Array, classes: int, resources: KernelResources) -> None:
        rows = labels.shape
        self._labels, self._last = labels, classes - 1
        self._numbers, self.places, self._starts = (
            resources.allocate(rows, _INT64) for _ in range(3)
        )
        self.shares = resources.allocate(rows, _FLOAT32)
        np.multiply(np.arange(len(labels)), classes, out=self._starts)

    def find(self) -> None:
        """Compute both from the labels, which are truncated to integers."""
        np.copyto(self._numbers, self._labels, casting="unsafe")
        np.clip(self._numbers, 0, self._last, out=self.places)
        np.equal(self._numbers, self.places, out=self.shares, casting="unsafe")
        np.add(self.places, self._starts, out=self.places)


class _CrossEntropy(Kernel):
    """The forward pass; probabilities are stored after the primitive's scratchpad."""

    name = "onednn:softmax_cross_entropy"
    uses_scratch = False

    def __init__(self, data: Shape) -> None:
        desc = plain(data)
        self._softmax = _softmax(desc)
        used = scratchpad_bytes(self._softmax)
        self._start = -(-used // _ALIGNMENT) * _ALIGNMENT
        self._shape, self._nbytes = data, desc.nbytes
        self.scratchpad_bytes = self._start + self._nbytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that sums the logarithms."""
        data, label = map(present, arrays.inputs)
        out = present(arrays.outputs[0])
        memory = present(resources.scratchpad)[self._start : self._start + self._nbytes]
        probabilities = memory.view(_FLOAT32)
        tensors = {Argument.SRC: data, Argument.DST: probabilities}
        softmax = launch(self._softmax, tensors, resources)
        labels = _Labels(label, self._shape[1], resources)
        chosen = resources.allocate(label.shape, _FLOAT32)

        def call() -> None:
            softmax()
            labels.find()
            # All places are valid; with its default mode, NumPy buffers the output to check them.
            np.take(probabilities, labels.places, out=chosen, mode="clip")
            np.multiply(chosen, labels.shares, out=chosen)
            np.maximum(chosen, _SMALLEST, out=chosen)
            np.log(chosen, out=chosen)
            np.sum(chosen, keepdims=True, out=out)
            np.negative(out, out=out)

        return call


class _CrossEntropyBackward(Kernel):
    """The gradient: (probabilities - one-hot labels) times the gradient of the sum."""

    name = "onednn:softmax_cross_entropy_backward"
    backward_inputs = (0, 1)
    backward_outputs = ()
    uses_scratch = False

    def __init__(self, data: Shape) -> None:
        self._classes = data[1]
        self._softmax = _softmax(plain(data))
        self.scratchpad_bytes = scratchpad_bytes(self._softmax)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that writes the gradient."""
        data, label = map(present, arrays.inputs)
        grad, data_grad = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        tensors = {Argument.SRC: data, Argument.DST: data_grad}
        softmax = launch(self._softmax, tensors, resources)
        labels = _Labels(label, self._classes, resources)
        chosen = resources.allocate(label.shape, _FLOAT32)
        flat = data_grad.reshape(-1)

        def call() -> None:
            softmax()
            labels.find()
            np.take(flat, labels.places, out=chosen, mode="clip")
            np.subtract(chosen, labels.shares, out=chosen)
            flat[labels.places] = chosen
            np.multiply(flat, grad, out=flat)

        return call


def cross_entropy(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the forward pass."""
    data = request.inputs[0]
    return _CrossEntropy(data.shape) if are_float32(request) and data is not None else None


def cross_entropy_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the backward pass."""
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    return _CrossEntropyBackward(data.shape)


def _softmax(desc: MemoryDesc) -> Primitive:
    kind = Propagation.FORWARD_INFERENCE
    return Primitive.of("softmax_forward", kind, Algorithm.SOFTMAX_ACCURATE, desc, desc, 1)
