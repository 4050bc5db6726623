"""Graphs that are part of an operator, the body of a loop, and what runs them.

Operators know neither symbols nor executors: ``core.symbol.subgraph`` is such a graph, and
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
        operator: with its attributes.
        inputs: for each, which value it is and which output of it. The values of a graph are its
            variables first, then what its operators put out, in order.
    """

    operator: Any
    inputs: tuple[tuple[int, int], ...]


class Subgraph(Protocol):
    """A graph whose variables an operator gives values, in the order of its ``list_inputs``."""

    @property
    def applications(self) -> tuple[Application, ...]:
        """Its operators, each behind those it reads from."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the variables, all different."""

    @property
    def output_count(self) -> int:
        """Number of outputs."""

    @property
    def uses_random(self) -> bool:
        """True where it draws random numbers."""

    @property
    def depth(self) -> int:
        """How many levels of subgraphs there are below this one."""

    def infer_shapes(
        self, inputs: Sequence[Shape | None], outputs: Sequence[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        """Complete what is known of the shapes; ShapeError names a node inside."""

    def infer_dtypes(
        self, inputs: Sequence[DType | None], outputs: Sequence[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        """Complete what is known of the dtypes; TypeInferenceError names a node inside."""


class Body(Protocol):
    """A compiled subgraph. It runs again and again over the same arrays."""

    @property
    def inputs(self) -> Sequence[Array]:
        """What it reads; those of its own are to be filled before each run."""

    @property
    def outputs(self) -> Sequence[Array]:
        """What ``forward`` writes, none of them an input."""

    @property
    def gradients(self) -> Sequence[Array | None]:
        """By input, what ``backward`` writes or adds to."""

    @property
    def uses_random(self) -> bool:
        """True where ``forward`` draws random numbers."""

    def forward(self) -> None:
        """Compute the outputs."""

    def backward(self, head_gradients: Sequence[Array]) -> None:
        """Compute gradients, given those of the outputs; to be called right after ``forward``."""


class Bodies(Protocol):
    """The compiled subgraphs of the operators of one plan."""

    @property
    def has_backward(self) -> bool:
        """True where a backward pass may follow, for which tapes are to be written."""

    def body(
        self,
        graph: Subgraph,
        inputs: Sequence[Array | Spec],
        gradients: Sequence[Array | bool] = (),
    ) -> Body:
        """Return a subgraph compiled for these inputs, the same one in every run.

        Args:
            graph: what to compile.
            inputs: by input, an array that is read where it lies, or shape and dtype of one that
                the body shall have itself.
            gradients: by input, an array that the gradient is added to, or whether the body shall
                have one itself, which it overwrites; empty for a body without a backward pass.

        Raises:
            GraphError: a gradient cannot be computed.
        """

    def tape(self, key: Array) -> Tape:
        """Return the tape of the step that writes (forward) and reads (backward) an array."""


class Tape:
    """What a loop or branch leaves for its backward pass; its memory is used again.

    Attributes:
        length: how many iterations there were.
        choice: which branch was taken.
        random: the position of the random numbers before each iteration, None where none are
            drawn.
    """

    __slots__ = ("_states", "choice", "length", "random")

    def __init__(self) -> None:
        self.length = 0
        self.choice = 0
        self.random: list[Any] = []
        self._states: list[list[Array]] = []

    def begin(self) -> None:
        """Forget the last use."""
        self.length = 0
        self.random.clear()

    def record(self, states: Sequence[Array], random: Any) -> None:
        """Copy what an iteration begins with."""
        if self.length == len(self._states):
            self._states.append([state.copy() for state in states])
        else:
            for kept, state in zip(self._states[self.length], states, strict=True):
                kept[...] = state
        self.random.append(random)
        self.length += 1

    def states(self, iteration: int) -> list[Array]:
        """Return what an iteration began with."""
        return self._states[iteration]


class Knowledge(ABC, Generic[T]):
    """Shapes or dtypes in and around a subgraph: how they are inferred, stacked and sliced.

    Args:
        expect: merges two views of what is called so; a contradiction raises.
    """

    truth: T | None = None
    """What a condition gives."""

    def __init__(self, expect: Callable[[str, T | None, T | None], T | None]) -> None:
        self.expect = expect

    @abstractmethod
    def infer(
        self, graph: Subgraph, inputs: Sequence[T | None], outputs: Sequence[T | None]
    ) -> tuple[list[T | None], list[T | None]]:
        """Let a graph complete what is known of its inputs and outputs."""

    def infer_part(
        self,
        graph: Subgraph,
        inputs: list[T | None],
        locations: Sequence[int],
        outputs: Sequence[T | None],
    ) -> list[T | None]:
        """Infer a graph that reads some of the inputs, which it completes; return its outputs."""
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
        """Make states that go in (at the locations) and out (from ``first`` on) the same."""
        for index, location in enumerate(locations):
            common = self.expect(f"state {index}", outputs[first + index], inputs[location])
            inputs[location] = outputs[first + index] = common

    def length(self, stacks: Sequence[T | None], known: int = 0) -> int:
        """Return how many slices stacks have; 0 where that is unknown."""
        return known

    def unstacked(self, stack: T | None) -> T | None:
        """Return what one slice of a stack is."""
        return stack

    def stacked(self, length: int, part: T | None) -> T | None:
        """Return what a stack of such parts is."""
        return part

    def sliced(self, length: int, part: T | None, stack: T | None) -> T | None:
        """Return what is sliced into such parts, given what is known of it."""
        return part


class Shapes(Knowledge[Shape]):
    """Shapes: a stack has an axis more, but for one of single numbers, whose slices are (1,)."""

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
            # Of a slice (1,) it cannot be told whether it is one of numbers.
            return None
        if len(stack) == 1 or part is None:
            return (length, *stack[1:])
        return (length, *part)


class Dtypes(Knowledge[DType]):
    """Dtypes: those of a stack and of its slices are the same."""

    def infer(
        self, graph: Subgraph, inputs: Sequence[DType | None], outputs: Sequence[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return graph.infer_dtypes(inputs, outputs)
