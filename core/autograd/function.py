"""Functions whose gradient is written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ..backends import backend_of
from ..device import Context
from ..errors import MXNetError, ShapeError
from ..ndarray import NDArray
from ..ndarray.sparse_array import RowSparseNDArray
from ..ndarray.tape import Entry, Node, Origin, live, mode
from ..ops.rows import Rows
from ..symbol import Symbol
from ..types import Array, DType, Shape, shape_size

__all__ = ["Function", "FunctionNode"]


class Function:
    """A function of arrays with its own gradient.

    A subclass defines ``forward(self, *inputs)`` and ``backward(self, *output_grads)``, both on
    NDArrays, and each instance is called once::

        class Sigmoid(autograd.Function):
            def forward(self, x):
                y = 1 / (1 + nd.exp(-x))
                self.save_for_backward(y)
                return y

            def backward(self, dy):
                (y,) = self.saved_tensors
                return dy * y * (1 - y)
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *args: Any) -> None:
        """Keep arrays for ``backward``, which finds them in ``saved_tensors``."""
        self.saved_tensors = args

    def forward(self, *inputs: NDArray) -> Any:
        """Return one array, or a tuple of them."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, *output_grads: NDArray) -> Any:
        """Return the gradient of each input, given the gradient of each output."""
        raise NotImplementedError(f"{type(self).__name__} must define backward")

    def recorded_graph(self) -> Symbol | None:
        """Return the graph that ``forward`` runs, whose arguments are those of ``forward``.

        None, the default, means that there is none: the function cannot be part of a symbol.
        """
        return None

    def __call__(self, *inputs: NDArray) -> Any:
        """Run ``forward`` and record it as one computation."""
        if self._used:
            raise MXNetError(
                "Each Function instance can only be called once. Please create another instance."
            )
        self._used = True
        # What ``forward`` does within is not recorded: ``backward`` is its only derivative.
        recording, mode.recording = mode.recording, False
        try:
            outputs = self.forward(*inputs)
        finally:
            mode.recording = recording
        parents = [live(array._origin) for array in inputs]
        if recording and any(parent is not None for parent in parents):
            results = [outputs] if isinstance(outputs, NDArray) else list(outputs)
            node = FunctionNode(self, inputs, parents, results)
            for index, result in enumerate(results):
                result._origin = Entry(node, index)
        return outputs


class FunctionNode(Node):
    """One call of a function.

    Attributes:
        function: the function; None once the recording has been freed.
    """

    __slots__ = ("_inputs", "_outputs", "function")

    def __init__(
        self,
        function: Function,
        inputs: Sequence[NDArray],
        parents: Sequence[Origin | None],
        outputs: Sequence[NDArray],
    ) -> None:
        super().__init__(inputs[0].context, parents, len(outputs))
        self.function: Function | None = function
        # Not the arrays: those that ``backward`` needs, the function itself has saved.
        self._inputs: list[tuple[Shape, DType]] = [(x.shape, np.dtype(x.dtype)) for x in inputs]
        self._outputs: list[tuple[Shape, DType, Context]] = [
            (y.shape, np.dtype(y.dtype), y.context) for y in outputs
        ]

    def backward(self, out_grads: Sequence[Array | None]) -> Sequence[Array | None]:
        assert self.function is not None
        grads = [
            NDArray(_zeros(*spec) if raw is None else raw, spec[2], writable=False)
            for raw, spec in zip(out_grads, self._outputs, strict=True)
        ]
        returned = self.function.backward(*grads)
        in_grads = [returned] if isinstance(returned, NDArray) else list(returned)
        name = type(self.function).__name__
        if len(in_grads) != len(self._inputs):
            raise MXNetError(
                f"{name}.backward must return exactly the same number of NDArrays as the number of "
                f"NDArrays arguments to forward. Expecting {len(self._inputs)} got {len(in_grads)}"
            )
        return [
            _checked(f"{name}.backward: gradient {index}", grad, *spec)
            for index, (grad, spec) in enumerate(zip(in_grads, self._inputs, strict=True))
        ]

    def forget(self) -> None:
        super().forget()
        self.function = None


def _checked(what: str, grad: Any, shape: Shape, dtype: DType) -> Array | Rows:
    if not isinstance(grad, NDArray):
        raise TypeError(f"{what} is a {type(grad).__name__}; expected an NDArray")
    if isinstance(grad, RowSparseNDArray) and grad.shape == shape:
        rows = Rows(shape, dtype)
        converted = cast(RowSparseNDArray, grad.astype(dtype, copy=False))
        rows.keep(grad.indices.dense(), converted.data.dense())
        return rows
    if shape_size(grad.shape) != shape_size(shape):
        raise ShapeError(f"{what} has shape {grad.shape}, expected {shape}")
    return grad.astype(dtype, copy=False).dense().reshape(shape)


def _zeros(shape: Shape, dtype: DType, context: Context) -> Array:
    backend = backend_of(context)
    with backend.scope():
        return backend.xp.zeros(shape, dtype)
