"""Executors that are bound to sparse arrays: they compute with dense copies of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import MXNetError
from core.executor.bound import Bound
from core.executor.executor import Executor
from core.executor.trace import Graph
from core.ndarray import NDArray
from core.ops.storage import DECLARED_STORAGE, gradient_storage, output_storage
from core.symbol.graph import Node

__all__ = [
    "SparseExecutor",
    "gradient_storages",
    "has_sparse",
    "head_storages",
    "stored_as_declared",
    "with_dense_copies",
]


def has_sparse(bound: Bound) -> bool:
    """Tell whether any of the arrays is sparse."""
    arrays = (*bound.arguments, *bound.gradients, *bound.auxiliaries)
    return any(array is not None and array.stype != "default" for array in arrays)


def with_dense_copies(bound: Bound) -> Bound:
    """Return the same arrays with dense copies in place of the sparse ones."""
    return Bound(
        [_dense(array) for array in bound.arguments],
        [None if array is None else _dense(array) for array in bound.gradients],
        bound.requests,
        [_dense(array) for array in bound.auxiliaries],
    )


def head_storages(graph: Graph, storages: Mapping[str, str]) -> list[str]:
    """Return the storage types of a graph's outputs, from those of its variables by name."""
    found = _all_storages(graph, storages)
    return [found[node] for node, _ in graph.heads]


def stored_as_declared(graph: Graph, bound: Bound, given: Mapping[str, str]) -> Bound:
    """Return new arrays in the storage types that are given by name or that variables declare.

    Gradients are ``row_sparse`` where the one operator that reads the variable makes such ones.
    """
    found = _declared_storages(graph, given)
    gradients = _gradient_storages(graph, found)
    return Bound(
        [_stored(*pair) for pair in _with(found, graph.arguments, bound.arguments)],
        [
            None if array is None else _stored(array, gradients[node])
            for node, array in zip(graph.arguments, bound.gradients, strict=True)
        ],
        bound.requests,
        [_stored(*pair) for pair in _with(found, graph.auxiliaries, bound.auxiliaries)],
    )


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
                gradients[source].append(gradient_storage(node.op, inputs, index))
    return {
        node: "row_sparse" if kinds == ["row_sparse"] else "default"
        for node, kinds in gradients.items()
    }


def _with(
    found: Mapping[Node, str], nodes: Sequence[Node], arrays: Sequence[NDArray]
) -> list[tuple[NDArray, str]]:
    return [(array, found[node]) for node, array in zip(nodes, arrays, strict=True)]


def _all_storages(graph: Graph, storages: Mapping[str, str]) -> dict[Node, str]:
    found: dict[Node, str] = {}
    for node in graph.nodes:
        if node.op is None:
            found[node] = storages.get(node.name, "default")
        else:
            found[node] = output_storage(node.op, [found[source] for source, _ in node.inputs])
    return found


def _stored(array: NDArray, stype: str) -> NDArray:
    return array if array.stype == stype else array.tostype(stype)


class SparseExecutor(Executor):
    """An executor whose arrays may be sparse, in MXNet's words and with MXNet's results.

    What the sparse arguments hold is read anew at each forward pass, and sparse gradients are
    written after each backward pass. Outputs are sparse where MXNet's are; such ones are copies.
    """

    def __init__(self, *args: Any, stored: Bound, **kwargs: Any) -> None:
        """Args: those of ``Executor``, with dense copies, and the arrays given as ``stored``."""
        super().__init__(*args, **kwargs)
        self.arg_arrays = stored.arguments
        self.grad_arrays = stored.gradients
        self.aux_arrays = stored.auxiliaries
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
        super().backward(_dense_gradients(out_grads), is_train)
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
        """Not to be had; MXNet's cannot either."""
        raise MXNetError(
            "an executor of sparse arrays cannot take other shapes; bind the symbol again"
        )


def _dense(array: NDArray) -> NDArray:
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
        if source is not target and source is not None and target is not None:
            target.assign_dense(source.dense())
