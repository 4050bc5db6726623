"""Pooling."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...capabilities.layers import Pooling
from ...types import Array, lowest, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .kernel import CudaKernel, element_macros, present, storage_type
from .launch import Call, call, divisor, function, grid_of

__all__ = ["pooling", "pooling_backward"]

_POOLS = {"max": "MAX", "avg": "AVERAGE", "sum": "SUM", "lp": "NORM"}
_AXES = 3
_WARPS = 8
"""Images of a block, each with a warp, where a window covers all of it."""

_AXIS = np.dtype([(name, "<i4") for name in ("size", "count", "kernel", "stride", "pad")])
_DIVISOR = divisor(1).dtype
_WINDOWS = np.dtype(
    [
        ("axes", _AXIS, (_AXES,)),
        ("padding", "V4"),  # that the compiler puts before what is aligned to 8 bytes
        ("divisors", _DIVISOR, (7,)),
        ("counts_padding", "<i4"),
        ("power", "<i4"),
    ]
)
"""``Windows`` of ``pooling.cu``."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Problem:
    """Pooling as the kernels take it.

    Attributes:
        operator: the operator.
        data, out: the tensors.
        kind: the C type of their elements.
        is_last: whether channels are the last axis.
    """

    operator: Pooling
    data: TensorSpec
    out: TensorSpec
    kind: str
    is_last: bool

    @classmethod
    def of(cls, request: KernelRequest[Pooling]) -> _Problem | None:
        """Return the problem; None if no kernel takes these tensors."""
        operator, data, out = request.operator, request.inputs[0], request.outputs[0]
        kind = storage_type(data, out, *request.out_grads[:1], *request.in_grads)
        if kind is None or data is None or out is None:
            return None
        is_last = operator.layout is not None and operator.layout.endswith("C")
        return cls(operator, data, out, kind, is_last)

    @property
    def macros(self) -> tuple[str, ...]:
        """The macros of ``pooling.cu``."""
        pool = _POOLS[self.operator.pool_type]
        return (*element_macros(self.kind, self.data, self.out), f"POOL={pool}")

    @property
    def is_whole(self) -> bool:
        """Whether the only window covers all of an image, whose elements lie side by side."""
        return self.operator.global_pool and not self.is_last

    @property
    def power(self) -> int:
        """The order of the norm."""
        return self.operator.p_value or 1

    @property
    def keeps_places(self) -> bool:
        """Whether the backward pass needs the places of the maxima."""
        return self.operator.pool_type == "max"

    def windows(self) -> Array:
        """Return ``Windows`` of ``pooling.cu``."""
        first = 1 if self.is_last else 2
        rank = len(self.data.shape) - 2
        sizes, counts = (one.shape[first : first + rank] for one in (self.data, self.out))
        operator = self.operator
        kernel, stride, pad = operator.kernel, operator.stride or (1,) * rank, (0,) * rank
        if operator.global_pool:
            kernel, stride = sizes, (1,) * rank
        elif any(operator.pad):
            pad = operator.pad
        columns = (sizes, counts, kernel, stride, pad)
        sizes, counts, kernel, stride, pad = (
            (*((0 if column is pad else 1,) * (_AXES - rank)), *column) for column in columns
        )
        found = np.zeros(1, _WINDOWS)
        found["axes"] = list(zip(sizes, counts, kernel, stride, pad, strict=True))
        inner = self.data.shape[-1] if self.is_last else 1
        numbers = (inner, *counts, *sizes)
        found["divisors"] = [divisor(number)[()] for number in numbers]
        found["counts_padding"] = operator.count_include_pad is not False
        found["power"] = self.power
        return found


def pooling(request: KernelRequest[Pooling]) -> Kernel | None:
    """Prepare the forward pass; in training, the places of maxima are kept."""
    problem = _Problem.of(request)
    if problem is None:
        return None
    size = shape_size(problem.out.shape)
    least = lowest(problem.data.dtype)
    keeps = problem.keeps_places and request.is_train
    elements = shape_size(problem.data.shape) // size

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = present(arrays.inputs[0]), present(arrays.outputs[0])
        places = arrays.workspace if keeps else None
        if problem.is_whole:
            pool = function("pooling.cu", "pooling_whole", *problem.macros)
            rest = (places, np.int32(problem.power), least)
            return call(pool, -(-size // _WARPS), size, elements, *operands, *rest)
        pool = function("pooling.cu", "pooling", *problem.macros)
        return call(pool, grid_of(size), size, *operands, places, problem.windows(), least)

    return CudaKernel("pooling", bind, workspace_bytes=4 * size if keeps else 0)


def pooling_backward(request: KernelRequest[Pooling]) -> Kernel | None:
    """Prepare the backward pass; that of maxima needs the places that the forward pass kept."""
    problem = _Problem.of(request)
    if problem is None or request.in_grads[0] is None:
        return None
    if problem.keeps_places and not _has_places(request.forward, request.is_train):
        return None
    size = shape_size(problem.data.shape)
    reads = problem.operator.pool_type == "lp" and problem.power > 1

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        differentiate = function("pooling.cu", "pooling_backward", *problem.macros)
        data, out = (arrays.inputs[0], arrays.outputs[0]) if reads else (None, None)
        places = arrays.workspace if problem.keeps_places else None
        grads = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        operands = (data, out, places, *grads)
        return call(differentiate, grid_of(size), size, *operands, problem.windows())

    read = (0,) if reads else ()
    return CudaKernel("pooling_backward", bind, backward_inputs=read, backward_outputs=read)


def _has_places(forward: Kernel | None, is_train: bool) -> bool:
    return is_train and isinstance(forward, CudaKernel) and forward.workspace_bytes > 0
