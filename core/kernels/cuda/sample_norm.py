"""Normalization of each sample by itself: layer, instance and group norm, L2 normalization."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...capabilities.layers import L2Normalization, LayerNorm, SampleNorm
from ...types import Array, Shape, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .kernel import CudaKernel, present, specs_of, storage_type
from .launch import Call, call, divisor, function, grid_of, in_turn
from .rows import Rows

__all__ = [
    "l2_normalization",
    "l2_normalization_backward",
    "layer_norm",
    "layer_norm_backward",
    "sample_norm",
    "sample_norm_backward",
]

_SOURCE = "sample_norm.cu"
_OF_PLACE, _OF_ROW = "VECTOR=OF_PLACE", "VECTOR=OF_ROW"
_WARP, _PART, _MAX_PARTS, _WANTED_BLOCKS = 32, 256, 64, 2048
_SUMS_BYTES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class _Norm:
    """A normalization of rows.

    Attributes:
        rows: the rows.
        vector: the macro that tells which element of gamma belongs to an element.
        view: the data's shape as (outer, channels, inner), with gamma along the second axis.
        kind: the C type of elements.
        eps: added to the variance.
    """

    rows: Rows
    vector: str
    view: Shape
    kind: str
    eps: float

    @property
    def channels(self) -> int:
        """Length of gamma."""
        return self.view[1]

    @property
    def count(self) -> int:
        """Number of elements of each channel."""
        return self.view[0] * self.view[2]

    @property
    def blocks(self) -> int:
        """Blocks that add up a part of all channels."""
        return -(-self.channels // _WARP) if self.view[2] == 1 else self.channels

    @property
    def each(self) -> int:
        """Number of elements in a part of a channel."""
        parts = min(self.count // _PART, _MAX_PARTS, _WANTED_BLOCKS // self.blocks)
        return -(-self.count // max(parts, 1))

    @property
    def parts(self) -> int:
        """Number of parts of a channel."""
        return -(-self.count // self.each)

    def call(self, name: str, *arguments: Any) -> Call:
        """Return a call of a function that computes rows."""
        rest = divisor(self.channels) if self.vector == _OF_ROW else divisor(1)
        return self.rows.call(_SOURCE, name, *arguments, rest, macros=(self.vector,))

    def sums(
        self, seen: tuple[Array, ...], parts: Array, grads: tuple[Array | None, Array | None]
    ) -> Call:
        """Return a call that writes the gradients of gamma and beta.

        Args:
            seen: data, mean, deviation and the gradient of the output.
            parts: temporary memory.
            grads: of gamma and beta; None where not wanted.
        """
        name = "vector_sums_of_columns" if self.view[2] == 1 else "vector_sums"
        macros = (*self.rows.macros, self.vector)
        sizes = (self.channels, self.count, self.each, divisor(self.view[2]))
        add_up, join = (function(_SOURCE, one, *macros) for one in (name, "vector_totals"))
        count = np.int32(self.parts)
        return in_turn(
            [
                call(add_up, (self.blocks, self.parts), *seen, parts, *sizes),
                call(join, grid_of(self.channels), parts, count, self.channels, *grads),
            ]
        )


def layer_norm(request: KernelRequest[LayerNorm]) -> Kernel | None:
    """Prepare the forward pass."""
    return _forward(_layer(request))


def layer_norm_backward(request: KernelRequest[LayerNorm]) -> Kernel | None:
    """Prepare the backward pass."""
    return _backward(_layer(request))


def sample_norm(request: KernelRequest[SampleNorm]) -> Kernel | None:
    """Prepare the forward pass of an instance norm or group norm."""
    return _forward(_sample(request))


def sample_norm_backward(request: KernelRequest[SampleNorm]) -> Kernel | None:
    """Prepare the backward pass of an instance norm or group norm."""
    return _backward(_sample(request))


def _layer(request: KernelRequest[LayerNorm]) -> _Norm | None:
    data, operator = request.inputs[0], request.operator
    kind = storage_type(*specs_of(request))
    if kind is None or data is None:
        return None
    rows = Rows.along(kind, data, operator.axis)
    return _Norm(rows, _OF_PLACE, (rows.outer, rows.classes, rows.inner), kind, operator.eps)


def _sample(request: KernelRequest[SampleNorm]) -> _Norm | None:
    data, operator = request.inputs[0], request.operator
    kind = storage_type(*specs_of(request))
    if kind is None or data is None:
        return None
    view = operator.view_shape(data.shape)
    rows = Rows.of(kind, data, (view[0] * view[1], view[2], 1))
    return _Norm(rows, _OF_ROW, view, kind, operator.eps)


def _forward(norm: _Norm | None) -> Kernel | None:
    if norm is None:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = map(present, (*arrays.inputs, *arrays.outputs))
        return norm.call("sample_norm", *operands, float(norm.eps))

    return CudaKernel("sample_norm", bind, inplace=((0, 0),))


def _backward(norm: _Norm | None) -> Kernel | None:
    if norm is None:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        data, gamma = map(present, arrays.inputs[:2])
        mean, deviation = map(present, arrays.outputs[1:])
        dy, (data_grad, gamma_grad, beta_grad) = present(arrays.out_grads[0]), arrays.in_grads
        calls = []
        if gamma_grad is not None or beta_grad is not None:
            seen, grads = (data, mean, deviation, dy), (gamma_grad, beta_grad)
            calls.append(norm.sums(seen, present(resources.scratchpad), grads))
        if data_grad is not None:
            operands = (data, gamma, mean, deviation, dy, data_grad)
            calls.append(norm.call("sample_norm_backward", *operands))
        return in_turn(calls)

    return CudaKernel(
        "sample_norm_backward",
        bind,
        backward_inputs=(0, 1),
        backward_outputs=(1, 2),
        scratchpad_bytes=norm.parts * norm.channels * _SUMS_BYTES,
    )


def l2_normalization(request: KernelRequest[L2Normalization]) -> Kernel | None:
    """Prepare the forward pass."""
    data = request.inputs[0]
    kind = storage_type(*specs_of(request))
    if kind is None or data is None:
        return None
    rows = _l2_rows(request.operator, kind, data)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = map(present, (arrays.inputs[0], *arrays.outputs))
        eps = float(request.operator.eps)
        return rows.call(_SOURCE, "l2_norm", *operands, eps, macros=(_OF_PLACE,))

    return CudaKernel("l2_normalization", bind, inplace=((0, 0),))


def l2_normalization_backward(request: KernelRequest[L2Normalization]) -> Kernel | None:
    """Prepare the backward pass."""
    data, kind = request.inputs[0], storage_type(*specs_of(request))
    if kind is None or data is None or request.in_grads[0] is None:
        return None
    rows = _l2_rows(request.operator, kind, data)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = map(present, (*arrays.outputs, arrays.out_grads[0], arrays.in_grads[0]))
        return rows.call(_SOURCE, "l2_norm_backward", *operands, macros=(_OF_PLACE,))

    return CudaKernel(
        "l2_normalization_backward",
        bind,
        inplace=((0, 0),),
        backward_inputs=(),
        backward_outputs=(0, 1),
    )


def _l2_rows(operator: L2Normalization, kind: str, data: TensorSpec) -> Rows:
    if operator.mode == "channel":
        return Rows.along(kind, data, 1)
    kept = 1 if operator.mode == "instance" else 2
    view = (shape_size(data.shape[:kept]), shape_size(data.shape[kept:]), 1)
    return Rows.of(kind, data, view)
