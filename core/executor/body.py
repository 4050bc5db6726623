"""Subgraphs of operators as plans of their own: the body of a loop, the branches of a condition."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from core.backends.kernels import Version
from core.device import Context
from core.errors import GraphError
from core.executor.arena import Arena
from core.executor.compile import CompileOptions, compile_graph
from core.executor.lower import Bindings
from core.executor.plan import Plan
from core.executor.trace import Graph, SpecOf, specs_of
from core.ops import make_operator
from core.ops.subgraph import Spec, Tape
from core.ops.subgraph import Subgraph as HeldGraph
from core.symbol.graph import Entry, Node
from core.symbol.infer import infer_graph
from core.symbol.subgraph import Subgraph
from core.types import Array

__all__ = ["CompiledBodies", "CompiledBody"]


class CompiledBodies:
    """The compiled subgraphs of the operators of one plan (``core.ops.subgraph.Bodies``).

    No two of them run at the same time, nor do those of plans that share an arena: all run in one
    arena further inside.

    Args:
        arena: that of the plan.
        context: the device.
        options: how the plan is compiled.
        is_train: mode of the operators.
        has_backward: whether the plan has a backward pass.
    """

    def __init__(
        self,
        arena: Arena,
        context: Context,
        options: CompileOptions,
        *,
        is_train: bool,
        has_backward: bool,
    ) -> None:
        self.has_backward = has_backward
        self._arena = arena
        self._context = context
        self._options = options
        self._is_train = is_train
        self._bodies: dict[Hashable, CompiledBody] = {}
        self._tapes: dict[int, Tape] = {}
        self._versioned: dict[tuple[int, int], Version] = {}

    def begin(self, bindings: Bindings) -> None:
        """Forget what was compiled for other arrays than those the plan is now bound to."""
        self._bodies.clear()
        self._tapes.clear()
        arrays = (*bindings.arguments, *bindings.auxiliaries)
        self._versioned = {
            self._extent(array): version
            for array, version in zip(arrays, bindings.versions, strict=True)
            if version is not None
        }

    def body(
        self,
        graph: HeldGraph,
        inputs: Sequence[Array | Spec],
        gradients: Sequence[Array | bool] = (),
    ) -> CompiledBody:
        """Return a subgraph compiled for these inputs, the same one in every run."""
        assert isinstance(graph, Subgraph)
        key = (graph, *map(_identity, inputs), *map(_identity, gradients))
        found = self._bodies.get(key)
        if found is None:
            bodies = CompiledBodies(
                self._arena.inner,
                self._context,
                self._options,
                is_train=self._is_train,
                has_backward=bool(gradients),
            )
            versions = [
                None if isinstance(given, tuple) else self._versioned.get(self._extent(given))
                for given in inputs
            ]
            found = CompiledBody(graph, inputs, gradients, versions, bodies)
            self._bodies[key] = found
        return found

    def tape(self, key: Array) -> Tape:
        """Return the tape of the step that writes (forward) and reads (backward) an array."""
        return self._tapes.setdefault(self._arena.backend.address(key), Tape())

    def plan(
        self, graph: Graph, spec_of: SpecOf, bindings: Bindings, requests: dict[int, str]
    ) -> Plan:
        """Return the plan of a body whose own bodies these are."""
        arguments = bindings.arguments
        compiled = compile_graph(
            graph,
            spec_of,
            requests,
            is_train=self._is_train,
            backend=self._arena.backend.name,
            strided={i for i, array in enumerate(arguments) if not array.flags.c_contiguous},
            constants={i for i, version in enumerate(bindings.versions) if version is not None},
            options=self._options,
        )
        return Plan(
            compiled,
            lambda: bindings,
            self._arena,
            self._context,
            check_kernels=self._options.check_kernels,
            bodies=self,
        )

    def _extent(self, array: Array) -> tuple[int, int]:
        return self._arena.backend.address(array), int(array.nbytes)

    def empty(self, spec: Spec) -> Array:
        """Return an array that starts on a cache line."""
        return self._arena.backend.empty(*spec)


class CompiledBody:
    """A subgraph compiled for given inputs (``core.ops.subgraph.Body``).

    Args:
        graph: what to compile.
        inputs, gradients: as of ``Bodies.body``.
        versions: by input, that of its array.
        bodies: those of operators inside, and what makes the plan.

    Attributes:
        inputs, gradients: arrays by input of the graph.
        outputs: arrays by output.
        uses_random: whether it draws random numbers.

    Raises:
        GraphError: a gradient cannot be computed.
    """

    def __init__(
        self,
        graph: Subgraph,
        inputs: Sequence[Array | Spec],
        gradients: Sequence[Array | bool],
        versions: Sequence[Version | None],
        bodies: CompiledBodies,
    ) -> None:
        if gradients and graph.updated:
            raise GraphError(
                f"a loop or branch updates {', '.join(graph.updated)} inside; as in MXNet it can "
                "be run forward only: bind with grad_req='null' or take that operator out of it"
            )
        self.uses_random = graph.uses_random
        self.inputs = [
            bodies.empty(given) if isinstance(given, tuple) else given for given in inputs
        ]
        self.gradients: list[Array | None] = [
            _gradient(bodies, array, wanted)
            for array, wanted in zip(self.inputs, gradients or [False] * len(inputs), strict=True)
        ]
        own = Graph.of([_written(head) for head in graph.heads])
        positions = {node: index for index, node in enumerate(graph.variables)}
        arguments = [positions[node] for node in own.arguments]
        auxiliaries = [positions[node] for node in own.auxiliaries]
        names = graph.input_names
        spec_of = specs_of(
            infer_graph(
                own.heads,
                {name: array.shape for name, array in zip(names, self.inputs, strict=True)},
                {name: array.dtype for name, array in zip(names, self.inputs, strict=True)},
            )
        )
        made: dict[Entry, Array] = {}
        for head in own.heads:
            if head not in made:
                made[head] = bodies.empty(spec_of(head))
        self.outputs = [made[head] for head in own.heads]
        bindings = Bindings(
            arguments=[self.inputs[position] for position in arguments],
            auxiliaries=[self.inputs[position] for position in auxiliaries],
            gradients=[self.gradients[position] for position in arguments],
            outputs=self.outputs,
            versions=[versions[position] for position in (*arguments, *auxiliaries)],
        )
        requests = {
            index: "write" if isinstance(gradients[position], bool) else "add"
            for index, position in enumerate(arguments)
            if self.gradients[position] is not None
        }
        self._plan = bodies.plan(own, spec_of, bindings, requests)

    def forward(self) -> None:
        """Compute the outputs."""
        self._plan.forward()

    def backward(self, head_gradients: Sequence[Array]) -> None:
        """Compute the gradients, right after ``forward``."""
        self._plan.backward(head_gradients)


def _identity(given: Array | Spec | bool) -> Hashable:
    return given if isinstance(given, (tuple, bool)) else id(given)


def _gradient(bodies: CompiledBodies, array: Array, wanted: Array | bool) -> Array | None:
    if isinstance(wanted, bool):
        return bodies.empty((array.shape, array.dtype)) if wanted else None
    return wanted


def _written(head: Entry) -> Entry:
    """Return a head that a step writes: a variable's copy, so that no output is an input."""
    if not head.node.is_variable:
        return head
    copy = make_operator("_copy", head.node.name, {})
    return Entry(Node(copy, f"{head.node.name}_copy", inputs=[head]), 0)
