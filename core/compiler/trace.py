"""Translates a symbol's graph to the forward pass of a program, one step for each node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ..graph.infer import GraphSpecs
from ..graph.nodes import Entry, Node, auxiliary_variables, topological_order
from ..types import DType, Shape
from .ir import Place, Program, Step
from .primitives import ToDense
from .sparse_step import SparseStep
from .storage_plan import StoragePlan

__all__ = ["Graph", "SpecOf", "specs_of", "trace"]

SpecOf = Callable[[Entry], tuple[Shape, DType]]
"""Returns the inferred shape and dtype of any entry of a graph."""


@dataclasses.dataclass(frozen=True)
class Graph:
    """A symbol's graph with the lists that every plan of it needs.

    Attributes:
        heads: the outputs.
        nodes: all nodes in topological order.
        arguments: argument variables, in the order of ``list_arguments``.
        auxiliaries: auxiliary variables, in the order of ``list_auxiliary_states``.
    """

    heads: tuple[Entry, ...]
    nodes: tuple[Node, ...]
    arguments: tuple[Node, ...]
    auxiliaries: tuple[Node, ...]

    @staticmethod
    def of(heads: Sequence[Entry]) -> Graph:
        """Sort a graph topologically and separate its arguments from its auxiliary states."""
        nodes = topological_order(heads)
        auxiliary = auxiliary_variables(nodes)
        variables = [node for node in nodes if node.is_variable]
        return Graph(
            heads=tuple(heads),
            nodes=tuple(nodes),
            arguments=tuple(node for node in variables if node not in auxiliary),
            auxiliaries=tuple(node for node in variables if node in auxiliary),
        )


def specs_of(specs: GraphSpecs) -> SpecOf:
    """Return a lookup function for the results of a complete inference."""

    def spec_of(entry: Entry) -> tuple[Shape, DType]:
        shape, dtype = specs.shape(entry), specs.dtype(entry)
        assert shape is not None
        assert dtype is not None
        return shape, dtype

    return spec_of


def trace(
    graph: Graph, spec_of: SpecOf, *, is_train: bool, storage: StoragePlan | None = None
) -> Program:
    """Return a program of the forward pass.

    The values of the arguments come first, then those of the auxiliary states, so that the
    value of argument ``i`` has the id ``i``. A head that is a variable is that variable's own
    value; the first of several equal heads determines the output's index. With ``storage``, nodes
    that work directly on sparse inputs become ``SparseStep``s, and separate steps make the dense
    copies that the other nodes read.
    """
    program = Program(is_train)
    ids: dict[Entry, int] = {}
    for place, variables in (
        (Place.ARGUMENT, graph.arguments),
        (Place.AUXILIARY, graph.auxiliaries),
    ):
        for index, node in enumerate(variables):
            entry = Entry(node, 0)
            value = program.new_value(node.name, *spec_of(entry), place, index)
            ids[entry] = value.id
    stored: dict[Entry, int] = {}
    for node in graph.nodes:
        if node.op is None:
            continue
        if storage is None or node not in storage.kernels:
            program.steps.append(_forward_step(program, node, ids, spec_of))
            continue
        program.steps.append(_sparse_step(program, node, storage, ids, stored, spec_of))
        if node in storage.copied:
            _copy_densely(program, Entry(node, 0), ids)
    program.forward_length = len(program.steps)
    for index, head in enumerate(graph.heads):
        value = program.values[ids[head]]
        program.outputs.append(value.id)
        # Not a variable, nor a head that an equal one before it has placed.
        if value.place is Place.ARENA:
            value.place, value.index = Place.OUTPUT, index
    return program


def _forward_step(program: Program, node: Node, ids: dict[Entry, int], spec_of: SpecOf) -> Step:
    assert node.op is not None
    inputs = tuple(ids[entry] for entry in node.inputs)
    outputs = []
    for index in range(node.output_count()):
        entry = Entry(node, index)
        value = program.new_value(node.output_name(index), *spec_of(entry))
        ids[entry] = value.id
        outputs.append(value.id)
    if not (updated := node.op.auxiliary_names()):
        return Step(node.op, node.name, inputs, tuple(outputs))
    named = zip(node.op.input_names(), inputs, strict=True)
    updates = tuple(value for name, value in named if name in updated)
    return Step(node.op, node.name, inputs, tuple(outputs), updates=updates)


def _sparse_step(
    program: Program,
    node: Node,
    storage: StoragePlan,
    ids: dict[Entry, int],
    stored: dict[Entry, int],
    spec_of: SpecOf,
) -> Step:
    """Return the step of a node that reads sparse values; ``ids`` has their dense copies."""
    assert node.op is not None
    kernel, entry = storage.kernels[node], Entry(node, 0)
    # A bound argument is one value in both forms: lowering picks its container or its dense array.
    inputs = tuple(
        stored.get(source, ids[source]) if index in kernel.stored else ids[source]
        for index, source in enumerate(node.inputs)
    )
    name, (shape, dtype) = node.output_name(0), spec_of(entry)
    if kernel.output == "default":
        output = program.new_value(name, shape, dtype)
    else:
        output = program.new_sparse(name, shape, dtype, kernel.output)
        stored[entry] = output.id
    ids[entry] = output.id
    return Step(SparseStep(node.op, kernel), node.name, inputs, (output.id,))


def _copy_densely(program: Program, entry: Entry, ids: dict[Entry, int]) -> None:
    """Append a dense copy of a sparse value, for steps that cannot read the sparse one."""
    sparse = program.values[ids[entry]]
    copy = program.new_value(f"{sparse.name}_dense", sparse.shape, sparse.dtype)
    program.steps.append(Step(ToDense(), entry.node.name, (sparse.id,), (copy.id,)))
    ids[entry] = copy.id
