"""Inference of storage types: what variables declare, what MXNet returns, what a plan keeps sparse.

Each operator declares the storage type of its outputs in MXNet (``Operator.output_storage``), and
its kernels for sparse inputs, with the storage types of their gradients
(``Operator.sparse_kernel``). A plan passes sparse values directly to operators that have such a
kernel; all others work on dense copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from ..errors import MXNetError
from ..graph.nodes import Entry, Node
from ..ops import Operator
from ..ops.sparse_kernel import SparseKernel
from ..ops.storage import DECLARED_STORAGE
from ..types import is_half, shape_size
from .storage_plan import StoragePlan
from .trace import Graph, SpecOf

__all__ = [
    "declared_storages",
    "gradient_storages",
    "head_storages",
    "plan_storage",
]


def plan_storage(
    graph: Graph,
    storages: Mapping[Node, str],
    also_dense: Set[Node],
    wanted: Set[Node],
    spec_of: SpecOf,
    free: int,
) -> StoragePlan:
    """Decide which values a plan keeps sparse.

    Args:
        graph: what to compute.
        storages: storage types of the arguments that are sparse.
        also_dense: those of them that also exist as dense arrays.
        wanted: arguments whose gradients are requested.
        spec_of: inferred shapes and dtypes.
        free: bytes available for dense copies.

    Raises:
        MXNetError: dense copies would not fit; names the node that reads them.
    """
    kept = dict(storages)
    kernels: dict[Node, SparseKernel] = {}
    needed, copied = set(wanted), set[Node]()
    for node in graph.nodes:
        if node.op is None:
            continue
        inputs = [source for source, _ in node.inputs]
        differentiated = [i for i in node.op.gradient_inputs(len(inputs)) if inputs[i] in needed]
        if differentiated:
            needed.add(node)
        if not any(source in kept for source in inputs):
            continue
        kernel = _kernel(node, kept, spec_of)
        if kernel is not None and all(kernel.has_gradient(i) for i in differentiated):
            kernels[node] = kernel
            if kernel.output != "default":
                kept[node] = kernel.output
        stored = kernels[node].stored if node in kernels else ()
        for index, source in enumerate(inputs):
            if source in kept and index not in stored and source not in copied:
                copied.add(source)
                if source not in also_dense:
                    free -= _size_of_copy(node, source, kept[source], spec_of, free)
    copied.update(node for node, _ in graph.heads if node in kept)
    plan = StoragePlan(kept, kernels, copied)
    return _without_detours(graph, plan, also_dense)


def _without_detours(graph: Graph, plan: StoragePlan, also_dense: Set[Node]) -> StoragePlan:
    """Drop sparse kernels whose output is only read as a dense array and whose inputs also exist as
    dense arrays: converting the output would cost more than computing it densely."""
    kept, kernels, copied = dict(plan.kept), dict(plan.kernels), set(plan.copied)
    readers = Counter(
        node.inputs[index].node for node, kernel in kernels.items() for index in kernel.stored
    )
    # In reverse, because dropping one kernel may leave those before it without a sparse reader.
    for node in reversed(graph.nodes):
        if node not in kernels or node not in copied or readers[node]:
            continue
        sources = [node.inputs[index].node for index in kernels[node].stored]
        if all(source in also_dense for source in sources):
            readers.subtract(sources)
            del kernels[node], kept[node]
            copied.remove(node)
            copied.update(sources)
    return StoragePlan(kept, kernels, copied)


def _size_of_copy(reader: Node, source: Node, stype: str, spec_of: SpecOf, free: int) -> int:
    """Return the size of a dense copy in bytes; raise MXNetError if it does not fit."""
    shape, dtype = spec_of(Entry(source, 0))
    nbytes = shape_size(shape) * dtype.itemsize
    if nbytes > free:
        assert reader.op is not None
        raise MXNetError(
            f"{reader.op.names[0]} {reader.name!r} computes with dense arrays here, and its "
            f"{stype} input {source.name!r} of shape {shape} would take {_gigabytes(nbytes)} as "
            f"one; {_gigabytes(free)} are free. Use operators that take {stype} arrays as they "
            "are (dot of csr without transpose_b, square, _square_sum ...), or fewer columns"
        )
    return nbytes


def _gigabytes(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.1f} GB"


def _kernel(node: Node, kept: Mapping[Node, str], spec_of: SpecOf) -> SparseKernel | None:
    assert node.op is not None
    entries = [*node.inputs, Entry(node, 0)]
    # ``StoragePlan.kept`` has one storage type for a node, and ``upcast`` cannot convert sparse
    # values.
    if node.output_count() > 1 or any(is_half(spec_of(entry)[1]) for entry in entries):
        return None
    return _kernel_of(node.op, [kept.get(source, "default") for source, _ in node.inputs])


def head_storages(graph: Graph, storages: Mapping[str, str]) -> list[str]:
    """Return the storage types of a graph's outputs, from those of its variables by name."""
    found = _all_storages(graph, storages)
    return [found[node] for node, _ in graph.heads]


def declared_storages(
    graph: Graph, given: Mapping[str, str]
) -> tuple[Mapping[Node, str], Mapping[Node, str]]:
    """Return the storage types of the variables and of the arguments' gradients.

    The storage type of a variable is the one given by name, else the one it declares. Gradients are
    ``row_sparse`` if all operators that read the variable produce such gradients.
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
    """Propagate storage types backwards; a sum is row_sparse if all its contributions are."""
    kinds: dict[Node, set[str]] = {node: set() for node in graph.nodes}
    for node, _ in graph.heads:
        kinds[node].add("default" if node.is_variable else found[node])
    for node in reversed(graph.nodes):
        if node.op is None:
            continue
        inputs = [source for source, _ in node.inputs]
        given = _given_gradients(node.op, [found[one] for one in inputs], _common(kinds[node]))
        for source, kind in zip(inputs, given, strict=False):
            kinds[source].add(kind)
    return {node: _common(kinds[node]) for node in graph.arguments}


def _common(kinds: Set[str]) -> str:
    return "row_sparse" if kinds == {"row_sparse"} else "default"


def _given_gradients(op: Operator, inputs: Sequence[str], arrived: str) -> list[str]:
    """Return the storage types of the inputs' gradients, from that of the output's."""
    kernel = _kernel_of(op, inputs)
    if kernel is not None and kernel.gradients:
        # A gradient that it does not take as stored is made dense.
        kinds = kernel.gradients.get(arrived) or kernel.gradients["default"]
        return [kind or "default" for kind in kinds]
    rows = op.row_gradients()
    return ["row_sparse" if index in rows else "default" for index in range(len(inputs))]


def _kernel_of(op: Operator, inputs: Sequence[str]) -> SparseKernel | None:
    return op.sparse_kernel(inputs) if set(inputs) - {"default"} else None


def _all_storages(graph: Graph, storages: Mapping[str, str]) -> dict[Node, str]:
    found: dict[Node, str] = {}
    for node in graph.nodes:
        if node.op is None:
            found[node] = storages.get(node.name, "default")
        else:
            found[node] = node.op.output_storage([found[source] for source, _ in node.inputs])
    return found
