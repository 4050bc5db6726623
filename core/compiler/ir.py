"""The compiler's intermediate representation: values, and the steps that read and write them.

A *value* is written once (static single assignment). A *step* applies an operator, forwards or
backwards. Passes modify a program in place, in the order given by ``compile_graph``.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from ..kernels.kernel import Kernel, Layout, TensorSpec
from ..ops import Operator
from ..types import DType, Shape, shape_size

__all__ = ["Place", "Program", "Slots", "Step", "Value"]

Slots = tuple[int | None, ...]
"""Ids of values by position; None for an operand that is absent."""


class Place(enum.Enum):
    """Where the memory of a value comes from."""

    ARENA = "arena"
    """Planned memory, shared with other values before and after this one's lifetime."""

    ARGUMENT = "argument"
    AUXILIARY = "auxiliary"
    GRADIENT = "gradient"
    """Bound arrays; ``Value.index`` is the position in the executor's list of them."""

    OUTPUT = "output"
    """The executor's output ``Value.index``; it stays until the next forward pass."""

    HEAD_GRADIENT = "head gradient"
    """Planned memory, alive from the start of the backward pass, when the array is copied in."""

    CACHE = "cache"
    """Cached between runs, and computed again only when the version of the variable that it comes
    from has changed; ``Value.index`` is the id of that variable."""

    SPARSE = "sparse"
    """The stored elements of a sparse value, in memory that its writer allocates at each run."""

    @property
    def is_planned(self) -> bool:
        """True if the memory planner chooses the address."""
        return self is Place.ARENA or self is Place.HEAD_GRADIENT


@dataclasses.dataclass(slots=True)
class Value:
    """A tensor that one step writes or the caller provides.

    Attributes:
        id: position in ``Program.values``.
        name: as the monitor and errors show it.
        index: position among the arrays of its place; -1 in the arena. See ``Place.CACHE``.
        layout: None for plain C order, else one specific to a backend.
        stype: storage type of a value in ``Place.SPARSE``.
        declared: the dtype that the graph gives the value, where the compiler has widened it.
        base: the value whose memory this one occupies; None if it has its own.
        is_view: True if it is the base's data in another shape; False if it overwrites the
            base's data.
        part: offset in bytes from the base, for an input of a concatenation that is written
            straight into the output; None for a value that begins where its base does.
    """

    id: int
    name: str
    shape: Shape
    dtype: DType
    place: Place = Place.ARENA
    index: int = -1
    layout: Layout | None = None
    stype: str = "default"
    declared: DType | None = None
    base: int | None = None
    is_view: bool = False
    part: int | None = None

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and layout."""
        return TensorSpec(self.shape, self.dtype, self.layout)

    @property
    def nbytes(self) -> int:
        """Size of its data in its layout."""
        if self.layout is not None:
            return self.layout.nbytes(self.shape, self.dtype)
        return shape_size(self.shape) * self.dtype.itemsize


# Compared by identity, because passes use steps as keys of dicts while they change them.
@dataclasses.dataclass(slots=True, eq=False)
class Step:
    """One operator, forwards or backwards.

    Attributes:
        op: the operator.
        node: name of the graph's node it comes from.
        inputs: the operator's inputs, auxiliary states last.
        outputs: the operator's outputs.
        out_grads: gradients of the outputs (backward only).
        in_grads: gradients of the inputs, which a backward step writes.
        source: the forward step that a backward step differentiates; None for forward steps.
        updates: auxiliary states among the inputs, changed in place.
        kernel: the fast kernel chosen, None for the operator's reference implementation.
        workspace: intermediate data that a forward kernel keeps for its backward kernel.
        parts: the steps that a fused step stands for, which run where it has no kernel.
    """

    op: Operator
    node: str
    inputs: Slots
    outputs: Slots
    out_grads: Slots = ()
    in_grads: Slots = ()
    source: Step | None = None
    updates: tuple[int, ...] = ()
    kernel: Kernel | None = None
    workspace: int | None = None
    parts: tuple[Step, ...] = ()

    @property
    def is_backward(self) -> bool:
        """Whether the step runs ``op.backward``."""
        return self.source is not None

    def reads(self) -> list[int]:
        """Ids of all values read, one for each operand."""
        if self.source is None:
            return [value for value in self.inputs if value is not None]
        # To a backward step the outputs and the workspace of its forward step are inputs.
        operands = (*self.out_grads, *self.inputs, *self.outputs, self.workspace)
        return [value for value in operands if value is not None]

    def writes(self) -> list[int]:
        """Ids of all values that the step defines (not of auxiliary states that it updates)."""
        targets = (*self.outputs, self.workspace) if self.source is None else self.in_grads
        return [value for value in targets if value is not None]

    def __str__(self) -> str:
        way = "backward of " if self.is_backward else ""
        return f"{way}{self.op.names[0]} {self.node!r}"


@dataclasses.dataclass(slots=True)
class Program:
    """All values and the steps in order of execution.

    Attributes:
        is_train: the mode the operators run in.
        forward_length: number of steps of the forward pass; the rest are the backward pass.
        outputs: the value of each head of the symbol.
        gradients: the final gradient of each argument that gets one, by position.
        head_gradients: the gradient of each head that the caller passes to the backward pass;
            None if nothing reads it.
        strided: bound values whose arrays are not C-contiguous.
        recomputed: values that the backward pass recomputes.
    """

    is_train: bool
    values: list[Value] = dataclasses.field(default_factory=list)
    steps: list[Step] = dataclasses.field(default_factory=list)
    forward_length: int = 0
    outputs: list[int] = dataclasses.field(default_factory=list)
    gradients: dict[int, int] = dataclasses.field(default_factory=dict)
    head_gradients: list[int | None] = dataclasses.field(default_factory=list)
    strided: frozenset[int] = frozenset()
    recomputed: frozenset[int] = frozenset()

    def new_value(
        self, name: str, shape: Shape, dtype: DType, place: Place = Place.ARENA, index: int = -1
    ) -> Value:
        """Add a value that no step writes yet."""
        value = Value(len(self.values), name, shape, dtype, place, index)
        self.values.append(value)
        return value

    def new_sparse(self, name: str, shape: Shape, dtype: DType, stype: str) -> Value:
        """Add a value that is stored sparsely."""
        value = self.new_value(name, shape, dtype, Place.SPARSE)
        value.stype = stype
        return value

    def new_view(self, of: int, like: Value, name: str) -> Value:
        """Add a value that is the data of ``of`` in the shape of ``like``."""
        value = self.new_value(name, like.shape, like.dtype)
        value.base, value.is_view = of, True
        return value

    def memory(self, value: int) -> Value:
        """Return the value whose memory this one occupies."""
        found = self.values[value]
        while found.base is not None:
            found = self.values[found.base]
        return found

    def region(self, value: int) -> int:
        """Return the id of the value whose bytes this one occupies.

        That is an input placed inside the output of a concatenation, or the owner of the memory.
        """
        found = self.values[value]
        while found.base is not None and found.part is None:
            found = self.values[found.base]
        return found.id

    def offset(self, value: int) -> int:
        """Return the offset of a value in the memory of its owner, in bytes."""
        found, offset = self.values[value], 0
        while found.base is not None:
            offset += found.part or 0
            found = self.values[found.base]
        return offset

    def data(self, value: int) -> int:
        """Return the id of the value that a view shows, through any number of views."""
        found = self.values[value]
        while found.is_view:
            assert found.base is not None
            found = self.values[found.base]
        return found.id

    def specs(self, slots: Slots) -> tuple[TensorSpec | None, ...]:
        """Return the specs of values by position."""
        values = self.values
        return tuple(None if slot is None else values[slot].spec for slot in slots)

    @property
    def forward_steps(self) -> list[Step]:
        """Steps of the forward pass."""
        return self.steps[: self.forward_length]

    @property
    def backward_steps(self) -> list[Step]:
        """Steps of the backward pass."""
        return self.steps[self.forward_length :]

    def replace_steps(self, forward: Sequence[Step], backward: Sequence[Step]) -> None:
        """Replace the steps of both passes."""
        self.steps = [*forward, *backward]
        self.forward_length = len(forward)
