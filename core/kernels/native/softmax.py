"""Softmax of few elements, which oneDNN takes longer to begin than to compute."""

from __future__ import annotations

from ...capabilities.arrays import AlongAxis, SoftmaxOutput
from ...types import shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32
from .call import NativeCall
from .library import library, loaded, pointer
from .structures import Softmax

__all__ = ["softmax", "softmax_output"]

_FEW = 64
"""Largest number of elements; for more of them oneDNN's vectors are faster."""


class _Softmax(Kernel):
    """Softmax of each row.

    Args:
        rows, columns: the data's shape, as a matrix.
    """

    name = "native:softmax"
    inplace = ((0, 0),)  # each element is read before it is written
    uses_scratch = False

    def __init__(self, rows: int, columns: int) -> None:
        self._rows, self._columns = rows, columns

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> NativeCall:
        """Return a call that computes all rows."""
        operands = (pointer(arrays.inputs[0]), pointer(arrays.outputs[0]))
        return NativeCall.of(loaded().softmax, Softmax(self._rows, self._columns, *operands))


def softmax(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the forward pass over the last axis in inference."""
    operator, data = request.operator, request.inputs[0]
    is_plain = not operator.use_length and operator.temperature in (None, 1)
    if data is None or not is_plain or operator.axis not in (-1, len(data.shape) - 1):
        return None
    return _prepare(request, data.shape[-1])


def softmax_output(request: KernelRequest[SoftmaxOutput]) -> Kernel | None:
    """Prepare the forward pass of the loss layer in inference, which does not need the label."""
    operator, data = request.operator, request.inputs[0]
    if data is None or operator.multi_output:
        return None
    return _prepare(request, data.shape[-1] if operator.preserve_shape else None)


def _prepare(request: KernelRequest[object], columns: int | None) -> Kernel | None:
    """Return the kernel for rows of this many elements, or one row for each example if None."""
    data = request.inputs[0]
    if data is None or library() is None or request.is_train or not are_float32(request):
        return None
    size = shape_size(data.shape)
    if data.layout is not None or size > _FEW:
        return None
    rows = data.shape[0] if columns is None else size // columns
    return _Softmax(rows, size // rows)
