"""Fully connected layers in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...capabilities.layers import Dense
from ...types import Array, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32
from .call import NativeCall
from .library import library, loaded, pointer, threads
from .scratchpad import nbytes_of
from .structures import DenseLayer

__all__ = ["dense_layer", "dense_layer_backward"]

_LANES = 16
"""Numbers in a register: C computes at least one register of each row of a gradient."""
_FEWEST_ROWS, _MOST_ROWS = 8, 256
"""Rows for which all gradients take at most oneDNN's time. For fewer, memory bandwidth is the
limit; threads had better share more."""
_PIECE = 1 << 16
"""Multiplications that are worth a thread."""
_SMALL = 1 << 19
"""Multiplications up to which it does not matter whether threads have equal shares."""


class _Dense(Kernel):
    """What both passes have in common.

    Args:
        request: the step.
        bands: how many parts the outputs are shared in.
    """

    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[Dense], bands: int) -> None:
        (rows, inputs), outputs = _sizes(request)
        self._layer = (rows, inputs, outputs, bands)
        self.scratchpad_bytes = nbytes_of((loaded().gemm_scratch(DenseLayer(*self._layer)),))


class _Forward(_Dense):
    """Multiplies the data by the transposed weight and adds the bias."""

    name = "native:gemm"

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a call that computes the output."""
        data, weight, *bias = map(pointer, arrays.inputs)
        layer = DenseLayer(*self._layer, data, weight, *bias)
        layer.out, layer.scratch = pointer(arrays.outputs[0]), pointer(resources.scratchpad)
        return NativeCall.of(loaded().gemm_forward, layer)


class _Backward(_Dense):
    """Computes the wanted gradients."""

    name = "native:gemm_backward"
    backward_outputs = ()

    def __init__(self, request: KernelRequest[Dense], bands: int) -> None:
        super().__init__(request, bands)
        # The data's gradient needs the weight, and the other way round.
        readers = {1: request.in_grads[0], 0: request.in_grads[1]}
        self.backward_inputs = tuple(sorted(i for i, one in readers.items() if one is not None))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a call that computes the gradients."""
        layer = DenseLayer(*self._layer, *map(_optional_pointer, arrays.inputs[:2]))
        layer.grad, layer.scratch = pointer(arrays.out_grads[0]), pointer(resources.scratchpad)
        names = ("data_grad", "weight_grad", "bias_grad")
        for name, grad in zip(names, arrays.in_grads, strict=False):
            setattr(layer, name, _optional_pointer(grad))
        return NativeCall.of(loaded().gemm_backward, layer)


def dense_layer(request: KernelRequest[Dense]) -> Kernel | None:
    """Prepare the forward pass in training: the weight changes before each pass, and oneDNN is
    slow with weights in the layout in which they are stored."""
    if library() is None or not request.is_train or not are_float32(request):
        return None
    (rows, _), outputs = _sizes(request)
    # Fewer rows do not fill a register, in which each lane is a row. With many outputs, packing the
    # data in each thread takes little of the time, however many rows there are.
    if not _LANES <= rows <= max(_MOST_ROWS, 2 * outputs):
        return None
    bands = _bands(request, fewest_busy=0.6)
    return None if bands is None else _Forward(request, bands)


def dense_layer_backward(request: KernelRequest[Dense]) -> Kernel | None:
    """Prepare the wanted gradients."""
    if library() is None or not are_float32(request):
        return None
    (rows, _), _ = _sizes(request)
    bands = _bands(request, fewest_busy=0.9)
    if bands is None or not _FEWEST_ROWS <= rows <= _MOST_ROWS:
        return None
    return _Backward(request, bands)


def _bands(request: KernelRequest[Dense], fewest_busy: float) -> int | None:
    """Return in how many parts threads share the outputs; None to leave the layer to oneDNN.

    ``fewest_busy`` is how much of the threads' time the work must fill. It fills less where bands
    of whole registers differ, or are too few.
    """
    (rows, inputs), outputs = _sizes(request)
    if inputs < _LANES:
        return None
    products = rows * inputs * outputs
    groups, useful = -(-outputs // _LANES), min(threads(), products // _PIECE + 1)
    bands = min(useful, groups)
    largest = -(-groups // bands) * _LANES
    if products > _SMALL and outputs < fewest_busy * useful * largest:
        return None
    return bands


def _sizes(request: KernelRequest[Dense]) -> tuple[tuple[int, int], int]:
    """Return the shape of the data as a matrix, and the number of outputs."""
    data, weight = request.inputs[:2]
    assert data is not None
    assert weight is not None
    outputs, inputs = weight.shape
    return (shape_size(data.shape) // inputs, inputs), outputs


def _optional_pointer(array: Array | None) -> Any:
    return None if array is None else pointer(array)
