"""Batch normalization."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

import numpy as np

from ...capabilities.functions import is_relu
from ...capabilities.fused import BatchNormActivation
from ...capabilities.layers import BatchNorm
from ...types import Array, shape_size
from ..kernel import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    KernelUnavailable,
    TensorSpec,
)
from .constants import Algorithm, Argument, Normalization, Propagation
from .kernel import (
    Launches,
    are_float32,
    forward_propagation,
    in_grad,
    input_,
    layouts_of,
    out_grad,
    output,
    present,
)
from .memory import MemoryDesc, alternatives, any_layout, channels_last
from .primitive import Primitive, launch

__all__ = [
    "batch_norm",
    "batch_norm_activation",
    "batch_norm_activation_backward",
    "batch_norm_backward",
]

_FLOAT32 = np.dtype("float32")
_ALIGNMENT = 64
_GENERATED = "bnorm"
"""Prefix of the names of implementations that are JIT-compiled for the processor."""


class _BatchNorm(Kernel):
    """The forward pass. Its workspace is the variance, of which the operator outputs 1 / sqrt, and
    with a fused ReLU also the mask of positive elements."""

    name = "onednn:batch_norm"

    def __init__(self, request: KernelRequest[object], norm: _Norm, primitive: Primitive) -> None:
        self._operator, self.norm, self.primitive = norm.operator, norm, primitive
        self._uses_batch = norm.uses_batch
        launches: Launches = [(primitive, {Argument.SRC: input_(0), Argument.DST: output()})]
        self.layouts = norm.layouts_of(request, launches)
        self.inplace = ((0, 0),)
        moving_var = request.inputs[4]
        assert moving_var is not None
        self._channels = moving_var.shape
        if self._uses_batch:
            self.workspace_bytes = _mask_start(moving_var.shape[0])
        if norm.fuses_relu:
            self.workspace_bytes += primitive.desc(Argument.WORKSPACE).nbytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that normalizes and writes the statistics."""
        data, gamma, beta, moving_mean, moving_var = map(present, arrays.inputs)
        out, mean, inverse = map(present, arrays.outputs)
        variance = moving_var
        if self._uses_batch:
            variance = _variance(arrays, moving_var.shape[0])
        tensors = {
            Argument.SRC: data,
            Argument.DST: out,
            Argument.SHIFT: beta,
            Argument.MEAN: mean if self._uses_batch else moving_mean,
            Argument.VARIANCE: variance,
        }
        if not self._operator.fix_gamma:
            tensors[Argument.SCALE] = gamma
        if self.norm.fuses_relu:
            tensors[Argument.WORKSPACE] = _mask(arrays, moving_var.shape[0])
        normalize = launch(self.primitive, tensors, resources)
        clip = None
        if self.norm.has_relu and not self.norm.fuses_relu:
            relu = _relu(self.primitive.desc(Argument.DST))
            clip = launch(relu, {Argument.SRC: out, Argument.DST: out}, resources)
        given_mean = None if self._uses_batch else moving_mean
        eps = np.float32(self._operator.eps)

        def call() -> None:
            normalize()
            if clip is not None:
                clip()
            if given_mean is not None:
                np.copyto(mean, given_mean)
            np.add(variance, eps, out=inverse)
            np.sqrt(inverse, out=inverse)
            np.reciprocal(inverse, out=inverse)

        return call


class _BatchNormBackward(Kernel):
    """The backward pass, which also updates the moving averages, as MXNet does there."""

    name = "onednn:batch_norm_backward"
    backward_inputs = (0, 1, 3, 4)
    backward_outputs: tuple[int, ...] = (1,)
    inplace = ()

    def __init__(self, request: KernelRequest[object], norm: _Norm, primitive: Primitive) -> None:
        self._operator, self._norm, self._primitive = norm.operator, norm, primitive
        self._uses_batch = norm.uses_batch
        operands = {
            Argument.SRC: input_(0),
            Argument.DIFF_DST: out_grad(),
            Argument.DIFF_SRC: in_grad(),
        }
        launches: Launches = [(primitive, operands)]
        self._relu: Primitive | None = None
        if norm.has_relu and not norm.fuses_relu:
            self.backward_outputs = (0, 1)
            self._relu = _relu_backward(primitive.desc(Argument.DIFF_DST))
            operands = {
                Argument.DST: output(),
                Argument.DIFF_DST: out_grad(),
                Argument.DIFF_SRC: in_grad(),
            }
            launches.append((self._relu, operands))
        self.layouts = norm.layouts_of(request, launches)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that computes the gradients wanted."""
        data, gamma, moving_mean, moving_var = (present(arrays.inputs[i]) for i in (0, 1, 3, 4))
        data_grad, gamma_grad, beta_grad = arrays.in_grads[:3]
        mean, variance = moving_mean, moving_var
        if self._uses_batch:
            mean = present(arrays.outputs[1])
            variance = _variance(arrays, gamma.shape[0])

        # The primitive writes all gradients, wanted or not.
        def own(array: Array | None) -> Array:
            return resources.allocate(gamma.shape, _FLOAT32) if array is None else array

        # A ReLU that the primitive does not apply masks the gradient first, in the memory of the
        # data's gradient, where the primitive then works in place.
        grad, masked = present(arrays.out_grads[0]), present(data_grad)
        mask = None
        if self._relu is not None:
            out = present(arrays.outputs[0])
            operands = {Argument.DST: out, Argument.DIFF_DST: grad, Argument.DIFF_SRC: masked}
            mask, grad = launch(self._relu, operands, resources), masked
        tensors = {
            Argument.SRC: data,
            Argument.MEAN: mean,
            Argument.VARIANCE: variance,
            Argument.DIFF_DST: grad,
            Argument.DIFF_SRC: masked,
            Argument.DIFF_SHIFT: own(beta_grad),
        }
        if not self._operator.fix_gamma:
            tensors.update({Argument.SCALE: gamma, Argument.DIFF_SCALE: own(gamma_grad)})
        if self._norm.fuses_relu:
            tensors[Argument.WORKSPACE] = _mask(arrays, gamma.shape[0])
        differentiate = launch(self._primitive, tensors, resources)
        zeroed = gamma_grad if self._operator.fix_gamma else None
        moved = ((moving_mean, mean), (moving_var, variance)) if self._uses_batch else ()
        momentum = np.float32(self._operator.momentum)
        share = np.float32(1 - self._operator.momentum)

        def call() -> None:
            if mask is not None:
                mask()
            differentiate()
            if zeroed is not None:
                zeroed.fill(0)  # as in MXNet
            for moving, batch in moved:
                part = resources.scratch(batch.shape, _FLOAT32)
                np.multiply(batch, share, out=part)
                np.multiply(moving, momentum, out=moving)
                np.add(moving, part, out=moving)

        return call


@dataclasses.dataclass(frozen=True, slots=True)
class _Norm:
    """A batch norm as the primitives see it.

    Attributes:
        operator: the batch norm.
        uses_batch: whether it normalizes by the statistics of the batch.
        is_last: whether the channels are the last axis; plain data is then described as images
            with a single row, channels last.
        has_relu: whether a ReLU follows.
        fuses_relu: whether the primitive applies the ReLU.
    """

    operator: BatchNorm
    uses_batch: bool
    is_last: bool
    has_relu: bool
    fuses_relu: bool

    @classmethod
    def of(cls, request: KernelRequest[object], operator: BatchNorm, *, has_relu: bool) -> _Norm:
        """Return what a request asks for."""
        uses_batch = request.is_train and not operator.use_global_stats
        data = request.inputs[0]
        axes = 0 if data is None else len(data.shape)
        is_last = axes > 2 and operator.axis % axes == axes - 1
        return cls(operator, uses_batch, is_last, has_relu, fuses_relu=has_relu)

    def layouts_of(self, request: KernelRequest[object], launches: Launches) -> KernelLayouts:
        """Return the layouts that primitives want."""
        return KernelLayouts() if self.is_last else layouts_of(request, launches)

    def descs(self, data: TensorSpec) -> tuple[MemoryDesc, ...]:
        """Return layouts of the data to compute in, as the primitives see it."""
        if not self.is_last:
            return alternatives(data)
        channels = data.shape[-1]
        return (channels_last((1, channels, 1, shape_size(data.shape) // channels)),)

    def flags(self) -> Normalization:
        """Return the flags of the primitives."""
        flags = Normalization.USE_SHIFT
        if not self.operator.fix_gamma:
            flags |= Normalization.USE_SCALE
        if not self.uses_batch:
            flags |= Normalization.USE_GLOBAL_STATISTICS
        if self.fuses_relu:
            flags |= Normalization.FUSE_RELU
        return flags

    def forward(self, request: KernelRequest[object], data: MemoryDesc) -> Primitive:
        """Return the forward primitive for data in this layout."""
        return Primitive.of(
            "batch_normalization_forward",
            forward_propagation(request),
            data,
            data if self.is_last else any_layout(data.dims),
            self.operator.eps,
            self.flags(),
        )


def batch_norm(request: KernelRequest[BatchNorm]) -> Kernel | None:
    """Prepare the forward pass, in the layout of the data if possible."""
    return _forward(request, _Norm.of(request, request.operator, has_relu=False))


def batch_norm_backward(request: KernelRequest[BatchNorm]) -> Kernel | None:
    """Prepare the backward pass, in the layout of the forward pass."""
    return _backward(request, _Norm.of(request, request.operator, has_relu=False))


def batch_norm_activation(request: KernelRequest[BatchNormActivation]) -> Kernel | None:
    """Prepare the forward pass followed by a ReLU that makes 0 of NaN; other activations run by
    themselves."""
    fused = request.operator
    function = fused.activation.pointwise()
    if function is None or not is_relu(function) or function.keeps_nan:
        return None
    return _forward(request, _Norm.of(request, fused.norm, has_relu=True))


def batch_norm_activation_backward(request: KernelRequest[BatchNormActivation]) -> Kernel | None:
    """Prepare the backward pass of both."""
    fused = request.operator
    return _backward(request, _Norm.of(request, fused.norm, has_relu=True))


def _forward(request: KernelRequest[object], norm: _Norm) -> Kernel | None:
    data = request.inputs[0]
    if not _is_supported(request, norm) or data is None:
        return None
    kernel: _BatchNorm | None = None
    # Implementations that are not JIT-compiled take many times as long, in any layout.
    for one in dict.fromkeys((norm, dataclasses.replace(norm, fuses_relu=False))):
        for desc in norm.descs(data):
            with contextlib.suppress(KernelUnavailable):
                primitive = one.forward(request, desc)
                if primitive.implementation.startswith(_GENERATED):
                    return _BatchNorm(request, one, primitive)
                kernel = _BatchNorm(request, one, primitive)
    return kernel


def _backward(request: KernelRequest[object], norm: _Norm) -> Kernel | None:
    data = request.inputs[0]
    if not _is_supported(request, norm) or data is None or request.in_grads[0] is None:
        return None
    if not isinstance(request.forward, _BatchNorm):
        return None
    norm, hint = request.forward.norm, request.forward.primitive
    grad = hint.desc(Argument.SRC) if norm.is_last else any_layout(data.shape)
    primitive = Primitive.of(
        "batch_normalization_backward",
        Propagation.BACKWARD,
        grad,
        grad,
        hint.desc(Argument.SRC),
        norm.operator.eps,
        norm.flags(),
        hint,
    )
    return _BatchNormBackward(request, norm, primitive)


def _relu(desc: MemoryDesc) -> Primitive:
    kind = Propagation.FORWARD_TRAINING
    return Primitive.of("eltwise_forward", kind, Algorithm.ELTWISE_RELU, desc, desc, 0.0, 0.0)


def _relu_backward(desc: MemoryDesc) -> Primitive:
    """Return the primitive that masks a gradient where the ReLU's input was negative."""
    # From the output, because the batch norm's output is the ReLU's and replaces its input.
    algorithm = Algorithm.ELTWISE_RELU_FROM_OUTPUT
    hint = _relu(desc)
    return Primitive.of("eltwise_backward", algorithm, desc, desc, desc, 0.0, 0.0, hint)


def _is_supported(request: KernelRequest[object], norm: _Norm) -> bool:
    data = request.inputs[0]
    assert data is not None
    is_known = norm.is_last or norm.operator.axis % len(data.shape) == 1
    return are_float32(request) and is_known


def _mask_start(channels: int) -> int:
    """Return the offset of the mask in the workspace, after the variance."""
    return -(-channels * _FLOAT32.itemsize // _ALIGNMENT) * _ALIGNMENT


def _variance(arrays: KernelArrays, channels: int) -> Array:
    return present(arrays.workspace)[: channels * _FLOAT32.itemsize].view(_FLOAT32)


def _mask(arrays: KernelArrays, channels: int) -> Array:
    return present(arrays.workspace)[_mask_start(channels) :]
