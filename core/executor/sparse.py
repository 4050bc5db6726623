"""Executors bound to sparse arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backends import backend_of
from ..compiler.storage_plan import StoragePlan
from ..compiler.storage_types import head_storages, plan_storage
from ..compiler.trace import Graph, SpecOf
from ..device import Context
from ..errors import MXNetError
from ..ndarray import NDArray
from ..ndarray.sparse_array import BaseSparseNDArray, RowSparseNDArray
from ..ops.rows import Rows
from ..types import is_half
from .bound import Bound
from .executor import Executor
from .free_memory import free_bytes

__all__ = ["SparseExecutor", "has_sparse", "with_stored"]


def has_sparse(bound: Bound) -> bool:
    """Return whether any of the arrays is sparse."""
    arrays = (*bound.arguments, *bound.gradients, *bound.auxiliaries)
    return any(array is not None and array.stype != "default" for array in arrays)


def with_stored(bound: Bound, graph: Graph, spec_of: SpecOf, context: Context) -> Bound:
    """Return the arrays with sparse ones replaced by what plans compute with.

    Sparse arguments remain as they are unless some operator reads them as dense arrays; those, and
    all other sparse arrays, are replaced by dense copies. ``row_sparse`` gradients are replaced by
    ``Rows``.

    Raises:
        MXNetError: dense copies would not fit.
    """
    storage = _planned(bound, graph, spec_of, context)
    by_rows = _gradients_by_rows(bound)
    # Containers of nodes' outputs are values of the plan; only those of arguments are bound.
    read = {
        source
        for node, kernel in storage.kernels.items()
        for source in (node.inputs[index].node for index in kernel.stored)
    }
    arguments = list(zip(graph.arguments, bound.arguments, strict=True))
    return Bound(
        [_dense(array) if node in storage.copied else array for node, array in arguments],
        [
            array if array is None or index in by_rows else _dense(array)
            for index, array in enumerate(bound.gradients)
        ],
        ["rows" if index in by_rows else request for index, request in enumerate(bound.requests)],
        [_dense(array) for array in bound.auxiliaries],
        by_rows,
        {
            i: array.container()
            for i, (node, array) in enumerate(arguments)
            if node in read and isinstance(array, BaseSparseNDArray)
        },
        storage,
    )


def _planned(bound: Bound, graph: Graph, spec_of: SpecOf, context: Context) -> StoragePlan:
    arguments = list(zip(graph.arguments, bound.arguments, strict=True))
    sparse = {node: array for node, array in arguments if isinstance(array, BaseSparseNDArray)}
    return plan_storage(
        graph,
        {node: array.stype for node, array in sparse.items()},
        {node for node, array in sparse.items() if array.memory is not None},
        {
            node
            for node, request in zip(graph.arguments, bound.requests, strict=True)
            if request != "null"
        },
        spec_of,
        free_bytes(backend_of(context)),
    )


def _gradients_by_rows(bound: Bound) -> dict[int, Rows]:
    """Return containers for the row_sparse gradients.

    Half-precision gradients stay dense, because their writers may be widened to float32.
    """
    return {
        index: Rows(array.shape, np.dtype(array.dtype))
        for index, array in enumerate(bound.gradients)
        if array is not None
        and array.stype == "row_sparse"
        and bound.requests[index] != "null"
        and not is_half(np.dtype(array.dtype))
    }


class SparseExecutor(Executor):
    """An executor whose arrays may be sparse, with MXNet's interface and results.

    Each forward pass reads the current contents of the sparse arguments, and each backward pass
    writes the sparse gradients at its end. An argument is converted only if some operator reads it
    as a dense array and it does not maintain a dense buffer itself. Outputs are sparse where
    MXNet's are; these are copies.
    """

    def __init__(self, *args: Any, stored: Bound, **kwargs: Any) -> None:
        """Args: those of ``Executor``, from ``with_stored``, and the arrays given, ``stored``."""
        super().__init__(*args, **kwargs)
        self.arg_arrays = stored.arguments
        self.grad_arrays = stored.gradients
        self.aux_arrays = stored.auxiliaries
        self._added = [request == "add" for request in stored.requests]
        variables = (*self.graph.arguments, *self.graph.auxiliaries)
        arrays = (*stored.arguments, *stored.auxiliaries)
        self._storages = head_storages(
            self.graph,
            {node.name: array.stype for node, array in zip(variables, arrays, strict=True)},
        )

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        for name, value in kwargs.items():
            self._set_argument(name, value)
        _copy(self.arg_arrays, self.bound.arguments)
        _copy(self.aux_arrays, self.bound.auxiliaries)
        for index, container in self.bound.stored.items():
            array = self.arg_arrays[index]
            assert isinstance(array, BaseSparseNDArray)
            # Plans are bound to this container, but the array may store its elements elsewhere now.
            container.share(array.container())
        super().forward(is_train)
        return self.outputs

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        # Gradients requested with "add" start from what is in the caller's arrays.
        _copy(self.grad_arrays, self.bound.gradients)
        for index, rows in self.bound.rows.items():
            rows.clear()
            gradient = self.grad_arrays[index]
            if self._added[index] and isinstance(gradient, RowSparseNDArray):
                rows.keep(gradient.indices.dense(), gradient.data.dense())
        super().backward(_dense_gradients(out_grads), is_train)
        for index, rows in self.bound.rows.items():
            gradient = self.grad_arrays[index]
            assert isinstance(gradient, RowSparseNDArray)
            gradient.take(rows)
        _copy(self.bound.gradients, self.grad_arrays)
        _copy(self.bound.auxiliaries, self.aux_arrays)

    @property
    def outputs(self) -> list[NDArray]:
        """The outputs, as the last forward pass left them."""
        return [
            output if stype == "default" else output.tostype(stype)
            for output, stype in zip(super().outputs, self._storages, strict=True)
        ]

    def reshape(self, *args: Any, **kwargs: Any) -> Executor:
        """Raise: executors of sparse arrays cannot be reshaped, as in MXNet."""
        raise MXNetError("an executor of sparse arrays cannot be reshaped; bind the symbol again")


def _dense(array: NDArray) -> NDArray:
    if isinstance(array, BaseSparseNDArray) and array.memory is not None:
        return NDArray(array.memory, array.context, version=array.version)
    return array if array.stype == "default" else array.tostype("default")


def _dense_gradients(given: Any) -> Any:
    if isinstance(given, NDArray):
        return _dense(given)
    if isinstance(given, Mapping):
        return {name: _dense(array) for name, array in given.items()}
    if isinstance(given, Sequence):
        return [_dense(array) if isinstance(array, NDArray) else array for array in given]
    return given


def _copy(sources: Sequence[NDArray | None], targets: Sequence[NDArray | None]) -> None:
    """Copy from sparse arrays to their dense copies, or back; the rest are the same arrays."""
    for source, target in zip(sources, targets, strict=True):
        if source is target or source is None or target is None:
            continue
        raw = source.dense()
        # A sparse array with a dense buffer of its own shares that with its "copy".
        if raw is not target.dense():
            target.assign_dense(raw)
