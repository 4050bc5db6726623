"""The older way to write an operator in Python: an object that makes symbols.

``mx.operator.register`` is the newer one, and the only one whose symbols can be saved and loaded.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

from ..ndarray import NDArray
from ..symbol import Symbol
from .custom import CustomOp, CustomOpProp, register_properties

__all__ = ["NDArrayOp", "NumpyOp", "PythonOp"]

_numbers = itertools.count()


class PythonOp:
    """Base of ``NumpyOp`` and ``NDArrayOp``; as it is, the identity with a gradient of ones.

    Args:
        need_top_grad: whether ``backward`` reads the gradients of the outputs; a loss does not.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        warnings.warn(
            "PythonOp has been deprecated. Please use CustomOp", DeprecationWarning, stacklevel=2
        )
        self.need_top_grad_ = need_top_grad

    def __call__(self, *args: Any, **kwargs: Any) -> Symbol:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Symbol:
        """Return this operator on symbols, given as ``mx.sym.Custom`` takes them."""
        raise NotImplementedError(f"{type(self).__name__} must define get_symbol")

    def forward(self, in_data: list[Any], out_data: list[Any]) -> None:
        """Write the outputs into ``out_data``."""
        out_data[0][:] = in_data[0]

    def backward(
        self, out_grad: list[Any], in_data: list[Any], out_data: list[Any], in_grad: list[Any]
    ) -> None:
        """Write the gradients of the inputs into ``in_grad``."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        """Return the shapes of inputs and outputs."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Return whether ``backward`` reads the gradients of the outputs."""
        return self.need_top_grad_


class NumpyOp(PythonOp):
    """Base of operators written with NumPy arrays, which are copies: write into them."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Symbol:
        return _symbol_of(self, _NumpyCalls(self), args, kwargs)


class NDArrayOp(PythonOp):
    """Base of operators written with NDArrays."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Symbol:
        return _symbol_of(self, _NDArrayCalls(self), args, kwargs)

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        """Return which of the arrays numbered in the arguments ``backward`` reads."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]


class _NDArrayCalls(CustomOp):
    """Calls the operator with the arrays themselves."""

    def __init__(self, op: PythonOp) -> None:
        self._op = op

    def forward(
        self,
        is_train: bool,
        req: list[str],
        in_data: list[NDArray],
        out_data: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        self._op.forward(in_data=in_data, out_data=out_data)

    def backward(
        self,
        req: list[str],
        out_grad: list[NDArray],
        in_data: list[NDArray],
        out_data: list[NDArray],
        in_grad: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        self._op.backward(out_grad=out_grad, in_data=in_data, out_data=out_data, in_grad=in_grad)


class _NumpyCalls(_NDArrayCalls):
    """Calls the operator with NumPy copies, and copies back what it has written."""

    def forward(
        self,
        is_train: bool,
        req: list[str],
        in_data: list[NDArray],
        out_data: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        written = _copies(out_data)
        self._op.forward(in_data=_copies(in_data), out_data=written)
        _copy_back(written, out_data)

    def backward(
        self,
        req: list[str],
        out_grad: list[NDArray],
        in_data: list[NDArray],
        out_data: list[NDArray],
        in_grad: list[NDArray],
        aux: list[NDArray],
    ) -> None:
        written = _copies(in_grad)
        self._op.backward(
            out_grad=_copies(out_grad),
            in_data=_copies(in_data),
            out_data=_copies(out_data),
            in_grad=written,
        )
        _copy_back(written, in_grad)


class _Properties(CustomOpProp):
    """Answers with what the operator says."""

    def __init__(self, op: PythonOp, calls: CustomOp) -> None:
        super().__init__(op.need_top_grad())
        self._op, self._calls = op, calls

    def list_arguments(self) -> list[str]:
        return self._op.list_arguments()

    def list_outputs(self) -> list[str]:
        return self._op.list_outputs()

    def infer_shape(self, in_shape: list[list[int]]) -> Any:
        return (*self._op.infer_shape(in_shape), [])

    def declare_backward_dependency(
        self, out_grad: list[int], in_data: list[int], out_data: list[int]
    ) -> list[int]:
        if isinstance(self._op, NDArrayOp):
            return self._op.declare_backward_dependency(out_grad, in_data, out_data)
        return super().declare_backward_dependency(out_grad, in_data, out_data)

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        return self._calls


def _symbol_of(op: PythonOp, calls: CustomOp, args: Sequence[Any], kwargs: Any) -> Symbol:
    """Return the operator on symbols; registered, and so kept, under a name of its own."""
    name = f"_{type(op).__name__}{next(_numbers)}"
    register_properties(name, lambda: _Properties(op, calls))
    return Symbol._call_operator("Custom", *args, op_type=name, **kwargs)


def _copies(arrays: Sequence[NDArray]) -> list[Any]:
    return [array.asnumpy() for array in arrays]


def _copy_back(written: Sequence[Any], arrays: Sequence[NDArray]) -> None:
    for source, target in zip(written, arrays, strict=True):
        target[:] = source
