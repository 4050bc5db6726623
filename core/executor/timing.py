"""How long each step of a plan takes, and which nodes of the graph it computes.

The compiler fuses nodes, drops those that have nothing to compute, and adds steps. Nodes are
matched with steps by the names of values, which passes preserve.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from ..compiler.ir import Program, Step
from ..compiler.trace import Graph
from ..graph.nodes import Node
from ..profiler.statistics import KERNEL
from .profile import OPERATOR, label_of

__all__ = ["StepTime", "nodes_of_steps", "timed_steps"]


class StepTime(NamedTuple):
    """The duration of one step of a pass.

    Attributes:
        operator: its name in profiles; ``layout reorder`` for a copy into another memory layout.
        kernel: name of the kernel; ``reference`` for the operator's reference implementation.
        copied: name of the value that a layout reorder copies, else empty.
        nodes: names of the graph's nodes that it computes; none for a step that the compiler added.
        seconds: duration until the device had finished.
    """

    operator: str
    kernel: str
    copied: str
    nodes: tuple[str, ...]
    seconds: float


def timed_steps(
    graph: Graph, program: Program, taken: Sequence[tuple[Step, float]]
) -> list[StepTime]:
    """Return the description and duration of each step of a forward pass.

    Args:
        graph: what the program computes.
        program: the program.
        taken: the steps that ran, in order, with their seconds.
    """
    nodes = nodes_of_steps(graph, program)
    return [_described(step, nodes[step], seconds) for step, seconds in taken]


def nodes_of_steps(graph: Graph, program: Program) -> dict[Step, tuple[str, ...]]:
    """Return the names of the nodes that each forward step computes, in the graph's order.

    A node whose output no step writes is attributed to the steps of its readers, unless it only
    changes a shape. Steps connected by values that the graph does not have are attributed the
    nodes of all of them.
    """
    known = {name: node for node in graph.nodes for name in _output_names(node)}
    steps = [step for step in program.forward_steps if not _is_added(step)]
    components = _components(steps, program, known.keys())
    writers = _writers(steps, program, known.keys())
    views = {value.name for value in program.values if value.is_view}
    found: dict[Step, list[str]] = {step: [] for step in program.forward_steps}
    steps_of: dict[Node, list[Step]] = {}
    readers: dict[Node, list[Node]] = {}
    order = {step: position for position, step in enumerate(steps)}
    for node in reversed(graph.nodes):  # those that read from a node come before it
        outputs = list(_output_names(node))
        own = [step for name in outputs for step in writers.get(name, ())]
        later = [step for reader in readers.get(node, ()) for step in steps_of[reader]]
        steps_of[node] = own or list(dict.fromkeys(later))
        for source, _ in node.inputs:
            readers.setdefault(source, []).append(node)
        is_view = not own and any(name in views for name in outputs)
        if steps_of[node] and not (node.is_variable or is_view):
            for step in components[min(steps_of[node], key=order.__getitem__)]:
                found[step].append(node.name)
    return {step: tuple(reversed(names)) for step, names in found.items()}


def _is_added(step: Step) -> bool:
    """Return whether a step only copies into another memory layout."""
    return label_of(step).category != OPERATOR


def _output_names(node: Node) -> Iterator[str]:
    if not node.is_variable:
        yield from (node.output_name(index) for index in range(node.output_count()))


def _writers(steps: Iterable[Step], program: Program, known: Set[str]) -> dict[str, list[Step]]:
    """Return the writers of each name that the graph has, through views."""
    writer = {value: step for step in steps for value in step.writes()}
    found: dict[str, list[Step]] = {}
    for value in program.values:
        data = program.data(value.id)
        # A view of what another node has computed is not computed itself.
        is_own = data == value.id or program.values[data].name not in known
        if data in writer and is_own and value.name in known:
            found.setdefault(value.name, []).append(writer[data])
    return found


def _components(steps: Sequence[Step], program: Program, known: Set[str]) -> dict[Step, list[Step]]:
    """Return for each step those connected with it by values that the graph does not have."""
    writer = {value: step for step in steps for value in step.writes()}
    together = {step: [step] for step in steps}
    for step in steps:
        for value in step.reads():
            source = writer.get(value)
            if source is None or program.values[value].name in known:
                continue
            one, other = together[source], together[step]
            if one is not other:
                one += other
                together |= dict.fromkeys(other, one)
    return together


def _described(step: Step, nodes: tuple[str, ...], seconds: float) -> StepTime:
    label = label_of(step)
    if label.category != OPERATOR:
        return StepTime(label.category, "copy", step.node, nodes, seconds)
    return StepTime(label.name, label.detail[KERNEL], "", nodes, seconds)
