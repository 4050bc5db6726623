"""Deconvolution, computed by the primitives of the convolution that it transposes.

That convolution maps the layer's output to its data, with the same weight. The layer's forward pass
is the convolution's gradient of its data, and vice versa.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...capabilities.layers import Deconvolution
from ...types import Shape
from ..kernel import (
    Kernel,
    KernelArrays,
    KernelRequest,
    KernelResources,
    KernelUnavailable,
    TensorSpec,
)
from .channel_sums import ChannelSums
from .constants import Algorithm, Argument, Propagation
from .convolution import has_channels_first, is_narrow
from .kernel import (
    Launches,
    PrimitiveKernel,
    are_float32,
    in_grad,
    input_,
    out_grad,
    output,
    present,
)
from .memory import any_layout, plain
from .primitive import Primitive

__all__ = ["deconvolution", "deconvolution_backward"]

_DIRECT = Algorithm.CONVOLUTION_DIRECT


class _Transpose:
    """The convolution that a layer transposes; the primitives choose all layouts."""

    def __init__(
        self, operator: Deconvolution, data: TensorSpec, weight: TensorSpec, out: Shape
    ) -> None:
        window = operator.window_for(data.shape[2:])
        groups, shape = operator.num_group, weight.shape
        if groups > 1:
            shape = (groups, shape[0] // groups, *shape[1:])
        behind = tuple(
            (count - 1) * stride + span - size - pad
            for count, stride, span, size, pad in zip(
                data.shape[2:], window.stride, window.spans, out[2:], window.pad, strict=True
            )
        )
        dilation = tuple(dilate - 1 for dilate in window.dilate)
        self.source, self.weight, self.target = map(any_layout, (out, shape, data.shape))
        self._is_narrow = is_narrow(out, groups)
        self._window = (window.stride, dilation, window.pad, behind)

    def forward(self) -> Primitive:
        """Return the primitive from the layer's output to its data."""
        return Primitive.of(
            "convolution_forward",
            Propagation.FORWARD_TRAINING,
            _DIRECT,
            self.source,
            self.weight,
            None,
            self.target,
            *self._window,
        )

    def backward_data(self) -> Primitive:
        """Return the primitive from the layer's data to its output."""
        source, target = self.source, self.target
        if self._is_narrow:
            source, target = plain(source.dims), plain(target.dims)
        return Primitive.of(
            "convolution_backward_data",
            _DIRECT,
            source,
            self.weight,
            target,
            *self._window,
            self.forward(),
        )

    def backward_weights(self, grad: Primitive | None) -> Primitive:
        """Return the primitive for the gradient of the weight; the output's gradient has a given
        layout."""
        return Primitive.of(
            "convolution_backward_weights",
            _DIRECT,
            self.source if grad is None else grad.desc(Argument.SRC),
            self.weight,
            None,
            self.target,
            *self._window,
            self.forward(),
        )


def deconvolution(request: KernelRequest[Deconvolution]) -> Kernel | None:
    """Prepare the forward pass."""
    transpose = _transpose(request)
    if transpose is None:
        return None
    primitive = transpose.backward_data()
    operands = {
        Argument.DIFF_DST: input_(0),
        Argument.WEIGHTS: input_(1),
        Argument.DIFF_SRC: output(),
    }
    if request.operator.no_bias:
        return PrimitiveKernel("deconvolution", request, (primitive, operands), inplace=())
    try:
        out = primitive.desc(Argument.DIFF_SRC)
        bias = plain((1, request.operator.num_filter, *(1 for _ in out.dims[2:])))
        add = Primitive.of("binary", Algorithm.BINARY_ADD, out, bias, out)
    except KernelUnavailable:
        # oneDNN adds the bias in fast layouts only; NumPy needs a plain output for it.
        transpose.source = plain(transpose.source.dims)
        return _Biased("deconvolution", request, (transpose.backward_data(), operands), inplace=())
    added = {Argument.SRC: output(), Argument.SRC_1: input_(2), Argument.DST: output()}
    launches = (primitive, operands), (add, added)
    return PrimitiveKernel("deconvolution", request, *launches, inplace=())


class _Biased(PrimitiveKernel):
    """Adds the bias to a plain output in a second step, because the primitive cannot add it."""

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that deconvolves and adds the bias."""
        compute = super().bind(arrays, resources)
        out, bias = present(arrays.outputs[0]), present(arrays.inputs[2])
        column = bias.reshape(-1, *(1 for _ in out.shape[2:]))

        def call() -> Any:
            status = compute()
            np.add(out, column, out=out)
            return status

        return call


def deconvolution_backward(request: KernelRequest[Deconvolution]) -> Kernel | None:
    """Prepare the requested gradients."""
    transpose = _transpose(request)
    wants_data, wants_weight, *wants_bias = (grad is not None for grad in request.in_grads)
    if transpose is None or not (wants_data or wants_weight):
        return None
    launches: Launches = []
    primitive = None
    if wants_data:
        primitive = transpose.forward()
        operands = {
            Argument.SRC: out_grad(),
            Argument.WEIGHTS: input_(1),
            Argument.DST: in_grad(0),
        }
        launches.append((primitive, operands))
    if wants_weight:
        operands = {
            Argument.SRC: out_grad(),
            Argument.DIFF_DST: input_(0),
            Argument.DIFF_WEIGHTS: in_grad(1),
        }
        launches.append((transpose.backward_weights(primitive), operands))
    kind = _BiasedBackward if any(wants_bias) else PrimitiveKernel
    return kind("deconvolution_backward", request, *launches, inplace=())


class _BiasedBackward(PrimitiveKernel):
    """Also computes the gradient of the bias."""

    def __init__(
        self, name: str, request: KernelRequest[object], *launches: Any, **options: Any
    ) -> None:
        super().__init__(name, request, *launches, **options)
        self._sums = ChannelSums(launches[0][0].desc(Argument.SRC))
        self.scratchpad_bytes = max(self.scratchpad_bytes, self._sums.scratchpad_bytes)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes all gradients."""
        compute = super().bind(arrays, resources)
        bias = present(arrays.in_grads[2]).reshape(1, -1)
        add_up = self._sums.bind(present(arrays.out_grads[0]), bias, resources)

        def call() -> Any:
            add_up()
            return compute()

        return call


def _transpose(request: KernelRequest[Deconvolution]) -> _Transpose | None:
    data, weight, out = request.inputs[0], request.inputs[1], request.outputs[0]
    if not are_float32(request) or not has_channels_first(request.operator):
        return None
    assert data is not None
    assert weight is not None
    assert out is not None
    return _Transpose(request.operator, data, weight, out.shape)
