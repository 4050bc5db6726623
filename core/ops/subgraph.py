"""Subgraphs of operators (the body of a loop, branches), and the interface that runs them.

Operators know neither symbols nor executors: ``core.graph.subgraph`` is such a graph, and
``core.executor.body`` compiles it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ..types import Array, DType, Shape

__all__ = [
    "Application",
    "Bodies",
    "Body",
    "Dtypes",
    "Knowledge",
    "Shapes",
    "Spec",
    "Subgraph",
    "Tape",
]

Spec: TypeAlias = tuple[Shape, DType]

T = TypeVar("T")


class Application(NamedTuple):
    """One operator of a graph, and where its inputs come from.

    Attributes:
        operator: the operator with its attributes.
        inputs: for each input, the index of a value and of one of its outputs. Values are numbered
            in order: first the graph's variables, then its operators.
    """

    operator: Any
    inputs: tuple[tuple[int, int], ...]


class Subgraph(Protocol):
    """A graph that an operator runs, supplying its variables in the order of ``list_inputs``."""

    @property
    def applications(self) -> tuple[Application, ...]:
        """Its operators in topological order."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the variables, all different."""

    @property
    def output_count(self) -> int:
        """Number of outputs."""

    @property
    def uses_random(self) -> bool:
        """True if it draws random numbers."""

    @property
    def updated_inputs(self) -> tuple[int, ...]:
        """Indices of the inputs that its operators update in ``forward``."""

    @property
    def depth(self) -> int:
        """Number of levels of subgraphs nested in this one."""

    def infer_shapes(
        self, inputs: Sequence[Shape | None], outputs: Sequence[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        """Infer unknown shapes; ShapeError names a node of the subgraph."""

    def infer_dtypes(
        self, inputs: Sequence[DType | None], outputs: Sequence[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        """Infer unknown dtypes; TypeInferenceError names a node of the subgraph."""


class Body(Protocol):
    """A compiled subgraph, which runs repeatedly over the same arrays."""

    @property
    def inputs(self) -> Sequence[Array]:
        """The arrays it reads; those that it allocated itself must be filled before each run."""

    @property
    def outputs(self) -> Sequence[Array]:
        """The arrays that ``forward`` writes; none of them is an input."""

    @property
    def gradients(self) -> Sequence[Array | None]:
        """For each input, the array that ``backward`` writes or adds to."""

    @property
    def updated(self) -> Sequence[Array]:
        """The inputs that ``forward`` updates."""

    @property
    def uses_random(self) -> bool:
        """True if ``forward`` draws random numbers."""

    def forward(self) -> None:
        """Compute the outputs."""

    def backward(self, head_gradients: Sequence[Array]) -> None:
        """Compute gradients from those of the outputs; must directly follow ``forward``."""


class Bodies(Protocol):
    """The compiled subgraphs of the operators of one plan."""

    @property
    def has_backward(self) -> bool:
        """True if a backward pass may follow, so that tapes must be written."""

    def body(
        self,
        graph: Subgraph,
        inputs: Sequence[Array | Spec],
        gradients: Sequence[Array | bool] = (),
    ) -> Body:
        """Return a subgraph compiled for these inputs, the same one in every run.

        Args:
            graph: what to compile.
            inputs: for each input, the array to read, or the shape and dtype of one that the body
                allocates.
            gradients: for each input, the array to which the gradient is added, or whether the
                body allocates one, which it overwrites; empty for a body without backward.

        Raises:
            GraphError: a gradient cannot be computed.
        """

    def tape(self, key: Array) -> Tape:
        """Return the tape of the step that writes (forward) and reads (backward) an array."""


class Tape:
    """What a loop or branch records for its backward pass; later runs reuse its memory.

    Attributes:
        length: number of iterations.
        choice: index of the branch taken.
        random: state of the random number generator before each iteration; None if no random
            numbers are drawn.
    """

    __slots__ = ("_states", "choice", "length", "random")

    def __init__(self) -> None:
        self.length = 0
        self.choice = 0
        self.random: list[Any] = []
        self._states: list[list[Array]] = []

    def begin(self) -> None:
        """Clear the record of the last run."""
        self.length = 0
        self.random.clear()

    def record(self, states: Sequence[Array], random: Any) -> None:
        """Record copies of the states at the start of an iteration."""
        kept = self._states[self.length : self.length + 1]
        # Another branch than in the last run has states of its own.
        if kept and _specs(kept[0]) == _specs(states):
            for target, state in zip(kept[0], states, strict=True):
                target[...] = state
        else:
            self._states[self.length :] = [[state.copy() for state in states]]
        self.random.append(random)
        self.length += 1

    def states(self, iteration: int) -> list[Array]:
        """Return the states at the start of an iteration."""
        return self._states[iteration]


def _specs(arrays: Sequence[Array]) -> list[Spec]:
    return [(array.shape, array.dtype) for array in arrays]


class Knowledge(ABC, Generic[T]):
    """Rules for shapes, or for dtypes, of a subgraph: inference, stacking and slicing.

    Args:
        expect: merges two partial results; the error for a contradiction names what they describe.
    """

    truth: T | None = None
    """The shape or dtype of a condition's output, if it is fixed."""

    def __init__(self, expect: Callable[[str, T | None, T | None], T | None]) -> None:
        self.expect = expect

    @abstractmethod
    def infer(
        self, graph: Subgraph, inputs: Sequence[T | None], outputs: Sequence[T | None]
    ) -> tuple[list[T | None], list[T | None]]:
        """Infer what is unknown about the inputs and outputs of a graph."""

    def infer_part(
        self,
        graph: Subgraph,
        inputs: list[T | None],
        locations: Sequence[int],
        outputs: Sequence[T | None],
    ) -> list[T | None]:
        """Infer a graph that reads some of the inputs, updating these; return its outputs."""
        within, without = self.infer(graph, [inputs[location] for location in locations], outputs)
        for location, value in zip(locations, within, strict=True):
            inputs[location] = self.expect(f"data{location}", inputs[location], value)
        return without

    def unite(
        self,
        inputs: list[T | None],
        locations: Sequence[int],
        outputs: list[T | None],
        first: int,
    ) -> None:
        """Merge each state's input (at the locations) with its output (from ``first`` on)."""
        for index, location in enumerate(locations):
            common = self.expect(f"state {index}", outputs[first + index], inputs[location])
            inputs[location] = outputs[first + index] = common

    def length(self, stacks: Sequence[T | None], known: int = 0) -> int:
        """Return the number of slices of some stacks; 0 if it is unknown."""
        return known

    def unstacked(self, stack: T | None) -> T | None:
        """Return the shape or dtype of one slice of a stack."""
        return stack

    def stacked(self, length: int, part: T | None) -> T | None:
        """Return the shape or dtype of a stack of such slices."""
        return part

    def sliced(self, length: int, part: T | None, stack: T | None) -> T | None:
        """Return the shape or dtype of the stack that is cut into such slices."""
        return part


class Shapes(Knowledge[Shape]):
    """Rules for shapes: a stack has one more axis than its slices, but slices of a vector are
    (1,)."""

    truth = (1,)

    def infer(
        self, graph: Subgraph, inputs: Sequence[Shape | None], outputs: Sequence[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return graph.infer_shapes(inputs, outputs)

    def length(self, stacks: Sequence[Shape | None], known: int = 0) -> int:
        found: Shape | None = (known,)
        for stack in stacks:
            if stack:
                found = self.expect("the length of axis 0", stack[:1], found)
        return found[0] if found else known

    def unstacked(self, stack: Shape | None) -> Shape | None:
        return (stack[1:] or (1,)) if stack else None

    def stacked(self, length: int, part: Shape | None) -> Shape | None:
        return None if part is None else (length, *part)

    def sliced(self, length: int, part: Shape | None, stack: Shape | None) -> Shape | None:
        if stack is None:
            # A slice (1,) may come from a stack (n, 1) or from a vector (n,).
            return None
        if len(stack) == 1 or part is None:
            return (length, *stack[1:])
        return (length, *part)


class Dtypes(Knowledge[DType]):
    """Rules for dtypes: a stack and its slices have the same dtype."""

    def infer(
        self, graph: Subgraph, inputs: Sequence[DType | None], outputs: Sequence[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return graph.infer_dtypes(inputs, outputs)
