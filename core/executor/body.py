"""Subgraphs of operators as separate plans: loop bodies and the branches of conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

from ..compiler.compile import Compiled, CompileOptions, compile_graph
from ..compiler.trace import Graph, SpecOf, specs_of
from ..device import Context
from ..graph.infer import infer_graph
from ..graph.nodes import Entry, Node
from ..graph.subgraph import Subgraph
from ..kernels.kernel import Version
from ..ops import make_operator
from ..ops.subgraph import Spec, Tape
from ..ops.subgraph import Subgraph as GraphAttribute
from ..types import Array
from .arena import Arena
from .lower import Bindings
from .plan import Plan

__all__ = ["CompiledBodies", "CompiledBody"]

_MOST_RECENT = 1000
"""Limit for ``CompiledBodies._recent``, whose entries keep arrays alive."""


@dataclasses.dataclass(frozen=True)
class _Mode:
    """Settings that all bodies of a plan have in common."""

    context: Context
    is_train: bool
    options: CompileOptions
    backward_is_train: bool | None = None


@dataclasses.dataclass(frozen=True)
class _Program:
    """A subgraph compiled for given shapes, but not yet bound to arrays.

    Attributes:
        graph: the subgraph; every output is written by a step (none is just a variable).
        arguments, auxiliaries: for each argument and auxiliary state of the graph, its position
            among the subgraph's inputs.
        spec_of: shapes and dtypes.
        compiled: the steps.
        inner: programs of nested subgraphs.
    """

    graph: Graph
    arguments: Sequence[int]
    auxiliaries: Sequence[int]
    spec_of: SpecOf
    compiled: Compiled
    inner: _Programs


_Programs = dict[Hashable, _Program]


class CompiledBodies:
    """The compiled subgraphs of the operators of one plan (``core.ops.subgraph.Bodies``).

    No two of them run at the same time, nor do those of plans that share an arena, so that all can
    run in one inner arena. Compiled programs are reused when the plan is bound to other arrays.

    Args:
        arena: the plan's arena.
        context: the device.
        options: compiler options of the plan.
        is_train: mode of the operators.
        has_backward: whether the plan has a backward pass.
        backward_is_train: mode of the operators' backward, if it differs from ``is_train``.
        programs: programs compiled for an earlier binding of the same plan.

    Attributes:
        mode: settings that all bodies have in common.
    """

    def __init__(
        self,
        arena: Arena,
        context: Context,
        options: CompileOptions,
        *,
        is_train: bool,
        has_backward: bool,
        backward_is_train: bool | None = None,
        programs: _Programs | None = None,
    ) -> None:
        self.has_backward = has_backward
        self._arena = arena
        self.mode = _Mode(context, is_train, options, backward_is_train)
        self._programs: _Programs = {} if programs is None else programs
        self._bodies: dict[Hashable, CompiledBody] = {}
        self._recent: dict[Hashable, tuple[CompiledBody, tuple[Any, ...]]] = {}
        self._tapes: dict[int, Tape] = {}
        self._versions: dict[tuple[int, int], Version] = {}

    def begin(self, bindings: Bindings) -> None:
        """Drop everything that was bound to other arrays than those the plan is now bound to."""
        self._bodies.clear()
        self._recent.clear()
        self._tapes.clear()
        arrays = (*bindings.arguments, *bindings.auxiliaries)
        # Bodies receive arrays, not names; by the memory they recognize parameters of the plan,
        # from which kernels may cache what they compute. The size excludes slices that begin there.
        self._versions = {
            (self._address(array), array.nbytes): version
            for array, version in zip(arrays, bindings.versions, strict=True)
            if version is not None
        }

    def body(
        self,
        graph: GraphAttribute,
        inputs: Sequence[Array | Spec],
        gradients: Sequence[Array | bool] = (),
    ) -> CompiledBody:
        """Return a subgraph compiled for these inputs, the same one in every run."""
        # Steps pass the same array objects in every run, and ids stay unique while those are alive.
        quick: Hashable = (id(graph), *map(_object, inputs), *map(_object, gradients))
        recent = self._recent.get(quick)
        if recent is not None:
            return recent[0]
        key: Hashable = (id(graph), *map(self._identity, inputs), *map(self._identity, gradients))
        found = self._bodies.get(key)
        if found is None:
            assert isinstance(graph, Subgraph)
            found = self._bodies[key] = self._bind(graph, inputs, gradients)
        if len(self._recent) >= _MOST_RECENT:
            self._recent.clear()
        self._recent[quick] = found, (*inputs, *gradients)
        return found

    def tape(self, key: Array) -> Tape:
        """Return the tape of the step that writes (forward) and reads (backward) an array."""
        return self._tapes.setdefault(self._address(key), Tape())

    def _address(self, array: Array) -> int:
        return self._arena.backend.address(array)

    def _identity(self, given: Array | Spec | bool) -> Hashable:
        if isinstance(given, (tuple, bool)):
            return given
        return self._address(given), given.shape, given.strides, given.dtype

    def _bind(
        self, graph: Subgraph, inputs: Sequence[Array | Spec], gradients: Sequence[Array | bool]
    ) -> CompiledBody:
        empty = self._arena.backend.empty
        arrays = [empty(*given) if isinstance(given, tuple) else given for given in inputs]
        versions = [
            None
            if isinstance(given, tuple)
            else self._versions.get((self._address(given), given.nbytes))
            for given in inputs
        ]
        # A gradient array that is given is added to; one that the body allocates is overwritten.
        requests: list[str | None] = [None] * len(arrays)
        targets: list[Array | None] = [None] * len(arrays)
        for index, wanted in enumerate(gradients):
            if not isinstance(wanted, bool):
                requests[index], targets[index] = "add", wanted
            elif wanted:
                array = arrays[index]
                requests[index], targets[index] = "write", empty(array.shape, array.dtype)
        program = self._program(graph, arrays, requests, versions)
        inner = CompiledBodies(
            self._arena.inner,
            self.mode.context,
            self.mode.options,
            is_train=self.mode.is_train,
            has_backward=any(requests),
            backward_is_train=self.mode.backward_is_train,
            programs=program.inner,
        )
        return CompiledBody(graph, program, arrays, targets, versions, self._arena.inner, inner)

    def _program(
        self,
        graph: Subgraph,
        arrays: Sequence[Array],
        requests: Sequence[str | None],
        versions: Sequence[Version | None],
    ) -> _Program:
        strided = [not array.flags.c_contiguous for array in arrays]
        constant = [version is not None for version in versions]
        specs = [(array.shape, array.dtype) for array in arrays]
        key = (graph, *specs, *requests, *strided, *constant)
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = _compile(
                graph, self.mode, self._arena.backend.name, specs, requests, strided, constant
            )
        return found


class CompiledBody:
    """A subgraph bound to arrays (``core.ops.subgraph.Body``).

    Attributes:
        inputs, gradients: arrays by input of the subgraph.
        outputs: arrays by output.
        updated: the inputs that ``forward`` updates.
        uses_random: whether it draws random numbers.
    """

    def __init__(
        self,
        graph: Subgraph,
        program: _Program,
        inputs: Sequence[Array],
        gradients: Sequence[Array | None],
        versions: Sequence[Version | None],
        arena: Arena,
        bodies: CompiledBodies,
    ) -> None:
        self.uses_random = graph.uses_random
        self.inputs = inputs
        self.updated = [inputs[index] for index in graph.updated_inputs]
        self.gradients = gradients
        made: dict[Entry, Array] = {}
        for head in program.graph.heads:
            if head not in made:
                made[head] = arena.backend.empty(*program.spec_of(head))
        self.outputs = [made[head] for head in program.graph.heads]
        # The program has its own order of variables; those of the subgraph are in ``inputs``.
        arguments, auxiliaries = program.arguments, program.auxiliaries
        bindings = Bindings(
            arguments=[inputs[position] for position in arguments],
            auxiliaries=[inputs[position] for position in auxiliaries],
            gradients=[gradients[position] for position in arguments],
            outputs=self.outputs,
            versions=[versions[position] for position in (*arguments, *auxiliaries)],
        )
        mode = bodies.mode
        self._plan = Plan(
            program.compiled,
            lambda: bindings,
            arena,
            mode.context,
            check_kernels=mode.options.check_kernels,
            bodies=bodies,
            backward_is_train=mode.backward_is_train,
        )
        self.forward = self._plan.forward
        self.backward = self._plan.backward


def _object(given: Array | Spec | bool) -> Hashable:
    return given if isinstance(given, (tuple, bool)) else id(given)


def _compile(
    graph: Subgraph,
    mode: _Mode,
    backend: str,
    specs: Sequence[Spec],
    requests: Sequence[str | None],
    strided: Sequence[bool],
    constant: Sequence[bool],
) -> _Program:
    """Compile a subgraph; each sequence has one element for each of its inputs."""
    own = Graph.of([_written(head) for head in graph.heads])
    positions = {node: index for index, node in enumerate(graph.variables)}
    arguments = [positions[node] for node in own.arguments]
    auxiliaries = [positions[node] for node in own.auxiliaries]
    shapes = {name: shape for name, (shape, _) in zip(graph.input_names, specs, strict=True)}
    dtypes = {name: dtype for name, (_, dtype) in zip(graph.input_names, specs, strict=True)}
    spec_of = specs_of(infer_graph(own.heads, shapes, dtypes))
    wanted = {index: requests[position] for index, position in enumerate(arguments)}
    compiled = compile_graph(
        own,
        spec_of,
        {index: request for index, request in wanted.items() if request is not None},
        is_train=mode.is_train,
        backend=backend,
        strided={index for index, position in enumerate(arguments) if strided[position]},
        constants={
            index for index, position in enumerate([*arguments, *auxiliaries]) if constant[position]
        },
        options=mode.options,
    )
    return _Program(own, arguments, auxiliaries, spec_of, compiled, {})


def _written(head: Entry) -> Entry:
    """Return the head, or for a variable a copy of it, so that no output is an input."""
    if not head.node.is_variable:
        return head
    copy = make_operator("_copy", head.node.name, {})
    return Entry(Node(copy, f"{head.node.name}_copy", inputs=[head]), 0)
