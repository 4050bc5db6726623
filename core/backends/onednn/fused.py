"""Layers with what follows them, in one primitive each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from core.backends.kernels import Kernel, KernelArrays, KernelRequest, KernelResources
from core.backends.onednn.constants import Argument
from core.backends.onednn.convolution import Problem, has_channels_first
from core.backends.onednn.eltwise import FUNCTIONS
from core.backends.onednn.inner_product import inner_product
from core.backends.onednn.kernel import (
    Operand,
    PrimitiveKernel,
    are_float32,
    input_,
    layouts_of,
    output,
    present,
)
from core.backends.onednn.memory import layout_of, plain
from core.backends.onednn.primitive import PostOperation, Primitive, launch
from core.backends.onednn.reorder import make_reorder
from core.types import Array

__all__ = ["fused_convolution", "fused_inner_product"]

_FLOAT32 = np.dtype("float32")
_SUM: PostOperation = ("sum", 1.0)


class _Residual(PrimitiveKernel):
    """A convolution that adds to what is in its output: the residual, which it may lie over."""

    def __init__(self, request: KernelRequest, primitive: Primitive, operands: Any) -> None:
        super().__init__("convolution_fused", request, (primitive, operands))
        self._residual = len(request.inputs) - 1
        self.inplace = ((self._residual, 0),)
        layout = layout_of(primitive.desc(Argument.DST))
        inputs = (*self.layouts.inputs[:-1], layout)
        self.layouts = dataclasses.replace(self.layouts, inputs=inputs)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that copies the residual, unless it is there already, and computes."""
        residual, out = present(arrays.inputs[self._residual]), present(arrays.outputs[0])
        compute = super().bind(arrays, resources)
        return _after_copy(compute, residual, out)


class _Folded(Kernel):
    """A convolution whose weights have taken in the batch norm behind it.

    The weights are made anew when their version or one of the batch norm's vectors has changed.
    """

    name = "onednn:convolution_folded"

    def __init__(self, request: KernelRequest, problem: Problem, primitive: Primitive) -> None:
        self._operator, self._problem, self._primitive = request.operator, problem, primitive
        operands = {Argument.SRC: input_(0), Argument.DST: output()}
        if self._operator.has_residual:
            # Not an argument of the primitive: what the output holds before.
            self.inplace = ((len(request.inputs) - 1, 0),)
        self.layouts = layouts_of(request, ((primitive, operands),))
        if self._operator.has_residual:
            inputs = (*self.layouts.inputs[:-1], layout_of(primitive.desc(Argument.DST)))
            self.layouts = dataclasses.replace(self.layouts, inputs=inputs)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that folds where something has changed, and computes."""
        data, weight, *others = map(present, arrays.inputs)
        bias = None if self._operator.layer.no_bias else others.pop(0)
        vectors, out = others[:4], present(arrays.outputs[0])
        folded = resources.allocate(
            (self._primitive.desc(Argument.WEIGHTS).nbytes,), np.dtype("uint8")
        )
        shift = resources.allocate(vectors[0].shape, _FLOAT32)
        tensors = {
            Argument.SRC: data,
            Argument.WEIGHTS: folded.view(_FLOAT32),
            Argument.BIAS: shift,
            Argument.DST: out,
        }
        compute = launch(self._primitive, tensors, resources)
        if self._operator.has_residual:
            compute = _after_copy(compute, others[4], out)
        version, watched = resources.versions[1], [*vectors, *([] if bias is None else [bias])]
        seen: list[bytes] | None = None
        seen_count = -1

        def call() -> None:
            nonlocal seen, seen_count
            present_bytes = [vector.tobytes() for vector in watched]
            if version is None or version.count != seen_count or present_bytes != seen:
                self._fold(weight, bias, vectors, folded, shift, resources)
                seen, seen_count = present_bytes, -1 if version is None else version.count
            compute()

        return call

    def _fold(
        self,
        weight: Array,
        bias: Array | None,
        vectors: list[Array],
        folded: Array,
        shift: Array,
        resources: KernelResources,
    ) -> None:
        """Write weight · scale and (bias - mean) · scale + beta."""
        gamma, beta, mean, variance = vectors
        norm = self._operator.batch_norm
        scale = 1 / np.sqrt(variance + np.float32(norm.eps))
        if not norm.fix_gamma:
            scale *= gamma
        np.subtract(0 if bias is None else bias, mean, out=shift)
        shift *= scale
        shift += beta
        scaled = resources.scratch(weight.shape, _FLOAT32)
        np.multiply(weight, scale.reshape(-1, *(1 for _ in weight.shape[1:])), out=scaled)
        source, target = plain(self._problem.weight), self._primitive.desc(Argument.WEIGHTS)
        tensors = {Argument.SRC: scaled, Argument.DST: folded}
        launch(make_reorder(source, target), tensors, resources)()


def fused_convolution(request: KernelRequest) -> Kernel | None:
    """Prepare a convolution with batch norm, residual and activation, as far as they are there."""
    fused, out = request.operator, request.outputs[0]
    if not are_float32(request) or not has_channels_first(fused.layer) or out is None:
        return None
    problem = Problem.of(fused.layer, request.inputs, out)
    post = (*([_SUM] if fused.has_residual else []), *_activation(fused))
    primitive = problem.forward(request, post, with_bias=fused.batch_norm is not None)
    if fused.batch_norm is not None:
        return _Folded(request, problem, primitive)
    operands: dict[Argument, Operand] = {
        Argument.SRC: input_(0),
        Argument.WEIGHTS: input_(1),
        Argument.DST: output(),
    }
    if problem.bias:
        operands[Argument.BIAS] = input_(2)
    if fused.has_residual:
        return _Residual(request, primitive, operands)
    return PrimitiveKernel("convolution_fused", request, (primitive, operands))


def fused_inner_product(request: KernelRequest) -> Kernel | None:
    """Prepare a fully connected layer with its activation."""
    layer = dataclasses.replace(request, operator=request.operator.layer)
    return inner_product(layer, _activation(request.operator))


def _activation(fused: Any) -> tuple[PostOperation, ...]:
    if fused.activation is None:
        return ()
    algorithm, alpha = FUNCTIONS[fused.activation.act_type]
    return (("eltwise", algorithm, alpha, 0.0),)


def _after_copy(compute: Callable[[], None], source: Array, target: Array) -> Callable[[], None]:
    """Return a closure that copies first, unless both are the same memory."""
    if source.ctypes.data == target.ctypes.data:
        return compute

    def call() -> None:
        np.copyto(target, source)
        compute()

    return call
