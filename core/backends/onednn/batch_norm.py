"""Batch normalization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.backends.kernels import Kernel, KernelArrays, KernelRequest, KernelResources
from core.backends.onednn.constants import Argument, Normalization, Propagation
from core.backends.onednn.kernel import (
    are_float32,
    forward_propagation,
    in_grad,
    input_,
    layouts_of,
    out_grad,
    output,
    present,
)
from core.backends.onednn.memory import MemoryDesc, any_layout, desc_of
from core.backends.onednn.primitive import Primitive, launch
from core.types import Array

__all__ = ["batch_norm", "batch_norm_backward"]

_FLOAT32 = np.dtype("float32")


class _BatchNorm(Kernel):
    """The forward pass. Its workspace is the variance, which the operator shows as 1 / sqrt."""

    name = "onednn:batch_norm"

    def __init__(self, request: KernelRequest, primitive: Primitive) -> None:
        self._operator, self._primitive = request.operator, primitive
        self._uses_batch = _uses_batch(request)
        operands = {Argument.SRC: input_(0), Argument.DST: output()}
        self.layouts = layouts_of(request, ((primitive, operands),))
        self.inplace = ((0, 0),)
        moving_var = request.inputs[4]
        assert moving_var is not None
        self._channels = moving_var.shape
        if self._uses_batch:
            self.workspace_bytes = moving_var.shape[0] * _FLOAT32.itemsize

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that normalizes and writes the statistics."""
        data, gamma, beta, moving_mean, moving_var = map(present, arrays.inputs)
        out, mean, inverse = map(present, arrays.outputs)
        variance = moving_var
        if self._uses_batch:
            variance = present(arrays.workspace).view(_FLOAT32)
        tensors = {
            Argument.SRC: data,
            Argument.DST: out,
            Argument.SHIFT: beta,
            Argument.MEAN: mean if self._uses_batch else moving_mean,
            Argument.VARIANCE: variance,
        }
        if not self._operator.fix_gamma:
            tensors[Argument.SCALE] = gamma
        normalize = launch(self._primitive, tensors, resources)
        given_mean = None if self._uses_batch else moving_mean
        eps = np.float32(self._operator.eps)

        def call() -> None:
            normalize()
            if given_mean is not None:
                np.copyto(mean, given_mean)
            np.add(variance, eps, out=inverse)
            np.sqrt(inverse, out=inverse)
            np.reciprocal(inverse, out=inverse)

        return call


class _BatchNormBackward(Kernel):
    """The backward pass, which also moves the moving statistics."""

    name = "onednn:batch_norm_backward"
    backward_inputs = (0, 1, 3, 4)
    backward_outputs = (1,)
    inplace = ()

    def __init__(self, request: KernelRequest, primitive: Primitive) -> None:
        self._operator, self._primitive = request.operator, primitive
        self._uses_batch = _uses_batch(request)
        operands = {
            Argument.SRC: input_(0),
            Argument.DIFF_DST: out_grad(),
            Argument.DIFF_SRC: in_grad(),
        }
        self.layouts = layouts_of(request, ((primitive, operands),))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that computes the gradients wanted."""
        data, gamma, moving_mean, moving_var = (present(arrays.inputs[i]) for i in (0, 1, 3, 4))
        data_grad, gamma_grad, beta_grad = arrays.in_grads[:3]
        mean, variance = moving_mean, moving_var
        if self._uses_batch:
            mean = present(arrays.outputs[1])
            variance = present(arrays.workspace).view(_FLOAT32)

        def own(array: Array | None) -> Array:
            return resources.allocate(gamma.shape, _FLOAT32) if array is None else array

        tensors = {
            Argument.SRC: data,
            Argument.MEAN: mean,
            Argument.VARIANCE: variance,
            Argument.DIFF_DST: present(arrays.out_grads[0]),
            Argument.DIFF_SRC: present(data_grad),
            Argument.DIFF_SHIFT: own(beta_grad),
        }
        if not self._operator.fix_gamma:
            tensors.update({Argument.SCALE: gamma, Argument.DIFF_SCALE: own(gamma_grad)})
        differentiate = launch(self._primitive, tensors, resources)
        zeroed = gamma_grad if self._operator.fix_gamma else None
        moved = ((moving_mean, mean), (moving_var, variance)) if self._uses_batch else ()
        momentum = np.float32(self._operator.momentum)
        share = np.float32(1 - self._operator.momentum)

        def call() -> None:
            differentiate()
            if zeroed is not None:
                zeroed.fill(0)
            for moving, batch in moved:
                part = resources.scratch(batch.shape, _FLOAT32)
                np.multiply(batch, share, out=part)
                np.multiply(moving, momentum, out=moving)
                np.add(moving, part, out=moving)

        return call


def batch_norm(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass, in the layout of the data."""
    data = request.inputs[0]
    if not _holds(request) or data is None:
        return None
    return _BatchNorm(request, _forward(request, desc_of(data)))


def batch_norm_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the backward pass, in the layout of the data."""
    data = request.inputs[0]
    if not _holds(request) or data is None or request.in_grads[0] is None:
        return None
    if _uses_batch(request) and not isinstance(request.forward, _BatchNorm):
        return None
    desc, operator = desc_of(data), request.operator
    grad = any_layout(data.shape)
    primitive = Primitive.of(
        "batch_normalization_backward",
        Propagation.BACKWARD,
        grad,
        grad,
        desc,
        operator.eps,
        _flags(request),
        _forward(request, desc),
    )
    return _BatchNormBackward(request, primitive)


def _forward(request: KernelRequest, data: MemoryDesc) -> Primitive:
    return Primitive.of(
        "batch_normalization_forward",
        forward_propagation(request),
        data,
        any_layout(data.dims),
        request.operator.eps,
        _flags(request),
    )


def _flags(request: KernelRequest) -> Normalization:
    flags = Normalization.USE_SHIFT
    if not request.operator.fix_gamma:
        flags |= Normalization.USE_SCALE
    if not _uses_batch(request):
        flags |= Normalization.USE_GLOBAL_STATISTICS
    return flags


def _uses_batch(request: KernelRequest) -> bool:
    uses_batch: bool = request.is_train and not request.operator.use_global_stats
    return uses_batch


def _holds(request: KernelRequest) -> bool:
    data, operator = request.inputs[0], request.operator
    assert data is not None
    return are_float32(request) and operator.axis % len(data.shape) == 1
