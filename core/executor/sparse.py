"""Executors that are bound to sparse arrays: they compute with dense copies of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import MXNetError
from ..ndarray import NDArray
from ..ndarray.sparse_array import BaseSparseNDArray, RowSparseNDArray
from ..ops.rows import Rows
from ..ops.storage import DECLARED_STORAGE
from ..symbol.graph import Node
from ..types import is_half
from .bound import Bound
from .executor import Executor
from .trace import Graph

__all__ = [
    "SparseExecutor",
    "declared_storages",
    "gradient_storages",
    "has_sparse",
    "head_storages",
    "with_dense_copies",
]


def has_sparse(bound: Bound) -> bool:
    """Tell whether any of the arrays is sparse."""
    arrays = (*bound.arguments, *bound.gradients, *bound.auxiliaries)
    return any(array is not None and array.stype != "default" for array in arrays)


def with_dense_copies(bound: Bound, graph: Graph) -> Bound:
    """Return the same arrays with dense copies in place of the sparse ones.

    Gradients of which a pass computes but a few rows stay as they are; the rows go to
    ``Bound.rows``.
    """
    few = _gradients_of_few_rows(bound, graph)
    return Bound(
        [_dense(array) for array in bound.arguments],
        [
            array if array is None or index in few else _dense(array)
            for index, array in enumerate(bound.gradients)
        ],
        ["rows" if index in few else request for index, request in enumerate(bound.requests)],
        [_dense(array) for array in bound.auxiliaries],
        few,
    )


def head_storages(graph: Graph, storages: Mapping[str, str]) -> list[str]:
    """Return the storage types of a graph's outputs, from those of its variables by name."""
    found = _all_storages(graph, storages)
    return [found[node] for node, _ in graph.heads]


def declared_storages(
    graph: Graph, given: Mapping[str, str]
) -> tuple[Mapping[Node, str], Mapping[Node, str]]:
    """Return the storage types of the variables and of the arguments' gradients.

    Variables are stored as is given by name, else as they declare. Gradients are ``row_sparse``
    where all operators that read the variable make such ones.
    """
    found = _declared_storages(graph, given)
    return found, _gradient_storages(graph, found)


def gradient_storages(graph: Graph) -> dict[str, str]:
    """Return the storage types that MXNet's gradients of the arguments have, by name."""
    found = _gradient_storages(graph, _declared_storages(graph, {}))
    return {node.name: stype for node, stype in found.items()}


def _declared_storages(graph: Graph, given: Mapping[str, str]) -> dict[Node, str]:
    declared = {
        node.name: DECLARED_STORAGE.get(node.attrs.get("__storage_type__", ""), "default")
        for node in (*graph.arguments, *graph.auxiliaries)
    }
    return _all_storages(graph, {**declared, **given})


def _gradient_storages(graph: Graph, found: Mapping[Node, str]) -> dict[Node, str]:
    gradients: dict[Node, list[str]] = {node: [] for node in graph.arguments}
    for node in graph.nodes:
        inputs = [found[source] for source, _ in node.inputs]
        for index, (source, _) in enumerate(node.inputs):
            if node.op is not None and source in gradients:
                gradients[source].append(node.op.gradient_storage(inputs, index))
    for node, _ in graph.heads:
        if node in gradients:
            gradients[node].append("default")
    return {
        node: "row_sparse" if set(kinds) == {"row_sparse"} else "default"
        for node, kinds in gradients.items()
    }


def _gradients_of_few_rows(bound: Bound, graph: Graph) -> dict[int, Rows]:
    """Return rows for the row_sparse gradients to which all readers of the argument can add rows.

    Those of half precision are not among them: what reads such may be given wider arrays.
    """
    whole = {node for node, _ in graph.heads}
    for node in graph.nodes:
        if node.op is not None:
            few = node.op.row_gradients()
            whole.update(one for i, (one, _) in enumerate(node.inputs) if i not in few)
    return {
        index: Rows(array.shape, np.dtype(array.dtype))
        for index, (node, array) in enumerate(zip(graph.arguments, bound.gradients, strict=True))
        if array is not None
        and array.stype == "row_sparse"
        and node not in whole
        and bound.requests[index] != "null"
        and not is_half(np.dtype(array.dtype))
    }


def _all_storages(graph: Graph, storages: Mapping[str, str]) -> dict[Node, str]:
    found: dict[Node, str] = {}
    for node in graph.nodes:
        if node.op is None:
            found[node] = storages.get(node.name, "default")
        else:
            found[node] = node.op.output_storage([found[source] for source, _ in node.inputs])
    return found


class SparseExecutor(Executor):
    """An executor whose arrays may be sparse, in MXNet's words and with MXNet's results.

    What the sparse arguments hold is read anew at each forward pass, and sparse gradients are
    written after each backward pass. Nothing is copied where an array keeps dense memory up to
    date, nor of gradients of which a pass computes but a few rows. Outputs are sparse where MXNet's
    are; such ones are copies.
    """

    def __init__(self, *args: Any, stored: Bound, **kwargs: Any) -> None:
        """Args: those of ``Executor``, with dense copies, and the arrays given as ``stored``."""
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
        super().forward(is_train)
        return self.outputs

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
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
            gradient.take_rows(rows)
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
        """Refuse: executors of sparse arrays cannot be reshaped, in MXNet either."""
        raise MXNetError(
            "an executor of sparse arrays cannot take other shapes; bind the symbol again"
        )


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
        if raw is not target.dense():
            target.assign_dense(raw)
