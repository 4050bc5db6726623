"""L2 normalization.

The squares, and in the backward pass the products to be summed, are stored temporarily in the
memory of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...capabilities.layers import L2Normalization
from ...types import shape_size
from ..kernel import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    Layout,
    TensorSpec,
)
from .constants import Algorithm, Argument
from .kernel import are_float32, present
from .memory import channels_last, desc_of, layout_of, plain, sample_of
from .primitive import PostOperation, Primitive, launch, scratchpad_bytes
from .staged_reduction import Stage, Sums

__all__ = ["l2_normalization", "l2_normalization_backward"]

_FLOAT32 = np.dtype("float32")
_LESS_WHAT_IS_THERE: PostOperation = ("sum", -1.0)


class _View(NamedTuple):
    """View of a tensor with three axes; norms are computed along the middle one."""

    stage: Stage
    layout: Layout | None

    @classmethod
    def of(cls, mode: str, data: TensorSpec) -> _View:
        """Return the view for this mode, in the tensor's own layout if possible."""
        batch, channels, *space = data.shape
        places = shape_size(tuple(space))
        if mode == "instance":
            desc = desc_of(data)
            size = sample_of(desc).nbytes // _FLOAT32.itemsize
            return cls(Stage(batch, size, 1), layout_of(desc))
        if mode == "spatial":
            return cls(Stage(batch * channels, places, 1), None)
        if data.layout is None:
            return cls(Stage(batch, channels, places), None)
        return cls(Stage(batch * places, channels, 1), layout_of(channels_last(data.shape)))

    def binary(self, algorithm: Algorithm, *, by_length: bool, post: Any = ()) -> Primitive:
        """Return the primitive for arithmetic with another tensor, or with one number for each
        norm."""
        outer, size, inner, _ = self.stage
        columns = (inner,) if inner > 1 else ()
        whole, lengths = plain((outer, size, *columns)), plain((outer, 1, *columns))
        right = lengths if by_length else whole
        return Primitive.of("binary", algorithm, whole, right, whole, post=post)


class _UnitLength(Kernel):
    """The forward pass."""

    name = "onednn:l2_normalization"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[L2Normalization], view: _View, sums: Sums) -> None:
        self.view, self.sums = view, sums
        self._eps = np.float32(request.operator.eps)
        self._square = view.binary(Algorithm.BINARY_MULTIPLY, by_length=False)
        self._divide = view.binary(Algorithm.BINARY_DIVIDE, by_length=True)
        self.scratchpad_bytes = max(
            sums.scratchpad_bytes, scratchpad_bytes(self._square, self._divide)
        )
        self.layouts = KernelLayouts((view.layout,), (view.layout, None))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that normalizes."""
        data, (out, lengths), eps = present(arrays.inputs[0]), arrays.outputs, self._eps
        out, lengths = present(out), present(lengths)
        tensors = {Argument.SRC: data, Argument.SRC_1: data, Argument.DST: out}
        square = launch(self._square, tensors, resources)
        add_up = self.sums.bind(out.view(_FLOAT32), lengths, resources)
        tensors = {Argument.SRC: data, Argument.SRC_1: lengths, Argument.DST: out}
        divide = launch(self._divide, tensors, resources)

        def call() -> Any:
            square()
            add_up()
            np.add(lengths, eps, out=lengths)
            np.sqrt(lengths, out=lengths)
            return divide.call()

        return call


class _UnitLengthBackward(Kernel):
    """The gradient: that of the output minus its projection on the output, divided by the norm."""

    name = "onednn:l2_normalization_backward"
    inplace = ()
    backward_inputs = ()
    backward_outputs = (0, 1)
    uses_scratch = False

    def __init__(self, view: _View, sums: Sums) -> None:
        self._view, self._sums = view, sums
        product = Algorithm.BINARY_MULTIPLY
        self._multiply = view.binary(product, by_length=False)
        self._scale = view.binary(product, by_length=True)
        self._scale_less = view.binary(product, by_length=True, post=(_LESS_WHAT_IS_THERE,))
        self.scratchpad_bytes = max(
            sums.scratchpad_bytes,
            scratchpad_bytes(self._multiply, self._scale, self._scale_less),
        )
        layouts = (view.layout,)
        self.layouts = KernelLayouts((None,), (*layouts, None), (*layouts, None), layouts)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the gradient."""
        out, lengths = map(present, arrays.outputs)
        grad, data_grad = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        along, inverse = (resources.allocate(lengths.shape, _FLOAT32) for _ in range(2))

        def ready(primitive: Primitive, left: Any, right: Any) -> Callable[[], Any]:
            tensors = {Argument.SRC: left, Argument.SRC_1: right, Argument.DST: data_grad}
            return launch(primitive, tensors, resources)

        multiply = ready(self._multiply, grad, out)
        add_up = self._sums.bind(data_grad.view(_FLOAT32), along, resources)
        scale = ready(self._scale, out, along)
        subtract = ready(self._scale_less, grad, inverse)

        def call() -> None:
            multiply()
            add_up()
            np.divide(along, lengths, out=along)
            np.reciprocal(lengths, out=inverse)
            scale()
            subtract()

        return call


def l2_normalization(request: KernelRequest[L2Normalization]) -> Kernel | None:
    """Prepare the forward pass: over samples in any layout, over channels in channels-last."""
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    view = _View.of(request.operator.mode, data)
    sums = Sums.of([view.stage])
    return None if sums is None else _UnitLength(request, view, sums)


def l2_normalization_backward(request: KernelRequest[L2Normalization]) -> Kernel | None:
    """Prepare the backward pass if ``l2_normalization`` prepared the forward pass."""
    forward = request.forward
    if not isinstance(forward, _UnitLength):
        return None
    return _UnitLengthBackward(forward.view, forward.sums)
