"""Recognition of channel shuffles written as reshape, transpose and reshape.

As three steps they need images in C order, and so reorders before and after; as one step they are a
single copy in the layout that convolutions use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..capabilities.arrays import TRANSPOSE
from ..capabilities.fused import SHUFFLE
from ..capabilities.kinds import implements, is_of
from ..ops import Reads, Run
from ..types import Array, Shape
from .ir import Place, Program, Step
from .primitives import Primitive

__all__ = ["ChannelShuffle", "recognize_channel_shuffles"]


@implements(SHUFFLE)
class ChannelShuffle(Primitive):
    """Interleave the channels of several groups (Zhang et al., ShuffleNet, 2018).

    Attributes:
        groups: the number of groups.
    """

    names = ("_plan_shuffle",)

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def backward_reads(self) -> Reads:
        return Reads()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, out = inputs[0], outputs[0]
        _deal(run, data, out, self.groups)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Apply the inverse permutation to the gradient."""
        grad, target = out_grads[0], in_grads[0]
        assert target is not None
        # Transposing (groups, rest) is undone by transposing (rest, groups).
        _deal(run, grad, target, grad.shape[1] // self.groups)


def _deal(run: Run, data: Array, out: Array, groups: int) -> None:
    batch, channels, *_ = data.shape
    parted = data.reshape(batch, groups, channels // groups, -1).swapaxes(1, 2)
    run.xp.copyto(out.reshape(parted.shape), parted)


def recognize_channel_shuffles(program: Program) -> bool:
    """Replace each shuffle by one step; return whether there was any.

    Runs before the backward pass is appended. Nothing else may read the values in between.
    """
    reads = Counter(slot for step in program.steps for slot in step.reads())
    writers = {slot: step for step in program.steps for slot in step.writes()}

    def before(step: Step) -> Step | None:
        (slot,) = step.inputs
        assert slot is not None
        is_hidden = program.values[slot].place is Place.ARENA and reads[slot] == 1
        return writers.get(slot) if is_hidden else None

    replaced: dict[Step, Step | None] = {}
    for last in program.steps:
        middle = before(last) if last.op.is_view() and len(last.inputs) == 1 else None
        if middle is None or not is_of(middle.op, TRANSPOSE):
            continue
        first = before(middle)
        groups = None if first is None else _groups(program, first, middle, last)
        if first is not None and groups is not None:
            shuffle = Step(ChannelShuffle(groups), last.node, first.inputs, last.outputs)
            replaced.update({first: None, middle: None, last: shuffle})
    found = (replaced.get(step, step) for step in program.steps)
    program.replace_steps([step for step in found if step is not None], [])
    return bool(replaced)


def _groups(program: Program, first: Step, middle: Step, last: Step) -> int | None:
    """Return the number of groups, if these three steps shuffle the channels of images."""
    if not first.op.is_view() or len(first.inputs) != 1:
        return None
    data, parted, swapped, out = (
        _shape(program, step, end)
        for step, end in ((first, "in"), (first, "out"), (middle, "out"), (last, "out"))
    )
    batch, *rest = parted
    is_parted = len(data) > 2 and parted == (batch, rest[0], data[1] // max(1, rest[0]), *data[2:])
    is_swapped = len(parted) > 3 and swapped == (batch, rest[1], rest[0], *parted[3:])
    assert is_of(middle.op, TRANSPOSE)
    axes = middle.op.permutation(len(parted))
    if not (is_parted and is_swapped) or axes[1:3] != (2, 1) or list(axes[3:]) != sorted(axes[3:]):
        return None
    return rest[0] if data == out and data[0] == batch else None


def _shape(program: Program, step: Step, end: str) -> Shape:
    slot = step.inputs[0] if end == "in" else step.outputs[0]
    assert slot is not None
    return program.values[slot].shape
