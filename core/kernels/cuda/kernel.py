"""What all kernels on CUDA devices share: which tensors they take, and a kernel made of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from ...types import Array, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .launch import Call

__all__ = ["Bind", "CudaKernel", "element_macros", "present", "specs_of", "storage_type"]

_TYPES = {
    np.dtype("float32"): "float",
    np.dtype("float16"): "half16",
    np.dtype(ml_dtypes.bfloat16): "brain16",
}
"""Names in ``common.cuh`` of the types of elements; all are computed in float32."""

_WIDE = 1 << 31

Bind = Callable[[KernelArrays, KernelResources], Call]


class CudaKernel(Kernel):
    """A kernel of a few launches.

    Args:
        name: for profiles and errors.
        bind: sets up the launches.
        backward_inputs, backward_outputs, inplace, workspace_bytes, scratchpad_bytes: as in
            ``Kernel``.
    """

    uses_scratch = False

    def __init__(
        self,
        name: str,
        bind: Bind,
        *,
        inplace: tuple[tuple[int, int], ...] = (),
        backward_inputs: tuple[int, ...] | None = None,
        backward_outputs: tuple[int, ...] | None = None,
        workspace_bytes: int = 0,
        scratchpad_bytes: int = 0,
    ) -> None:
        self.name = f"cuda:{name}"
        self._bind = bind
        self.inplace = inplace
        self.backward_inputs, self.backward_outputs = backward_inputs, backward_outputs
        self.workspace_bytes, self.scratchpad_bytes = workspace_bytes, scratchpad_bytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Call:
        """Return a call of all launches."""
        return self._bind(arrays, resources)


def specs_of(request: KernelRequest[Any]) -> Iterable[TensorSpec]:
    """Yield the specs of all tensors of a step."""
    groups = (request.inputs, request.outputs, request.out_grads, request.in_grads)
    return (spec for group in groups for spec in group if spec is not None)


def storage_type(*specs: TensorSpec | None) -> str | None:
    """Return the C type of the elements of tensors; None if no kernel takes them, because dtypes
    differ or are unknown, a layout is not plain, or there are no elements."""
    found = {spec.dtype for spec in specs if spec is not None}
    if len(found) != 1:
        return None
    for spec in specs:
        if spec is not None and (spec.layout is not None or 0 in spec.shape):
            return None
    return _TYPES.get(found.pop())


def element_macros(kind: str, *specs: TensorSpec | None) -> tuple[str, ...]:
    """Return the macros that declare the type of elements, and whether indices need 64 bits."""
    sizes = (shape_size(spec.shape) for spec in specs if spec is not None)
    return (f"T={kind}", "WIDE") if max(sizes, default=0) >= _WIDE else (f"T={kind}",)


def present(array: Array | None) -> Array:
    """Return an array that must not be None."""
    assert array is not None
    return array
