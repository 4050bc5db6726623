"""Copies of tensors, or of views of them, between layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..kernel import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    KernelUnavailable,
)
from .constants import Argument
from .kernel import Operand, present
from .memory import Memory, MemoryDesc, layout_of
from .primitive import Launch, Primitive
from .reorder import make_reorder

__all__ = ["Copies", "Copy", "End"]


class End(NamedTuple):
    """The source or the target of a copy.

    Attributes:
        operand: a tensor of the step.
        whole: its layout.
        seen: the view of its memory that is copied; None for the whole tensor.
    """

    operand: Operand
    whole: MemoryDesc
    seen: MemoryDesc | None = None

    @property
    def desc(self) -> MemoryDesc:
        """The view of the tensor that is copied."""
        return self.seen or self.whole


Copy = tuple[End, End]


class Copies(Kernel):
    """A sequence of copies.

    Args:
        name: for profiles.
        request: the step.
        copies: pairs of source and target.
        cleared: the tensor to be filled with zeros first, if any.
    """

    backward_inputs = ()
    backward_outputs = ()
    inplace = ()
    uses_scratch = False

    def __init__(
        self,
        name: str,
        request: KernelRequest[object],
        copies: Sequence[Copy],
        cleared: Operand | None = None,
    ) -> None:
        self.name = f"onednn:{name}"
        self._copies = [(_reorder(source, target), source, target) for source, target in copies]
        self._cleared = cleared
        found = {end.operand: layout_of(end.whole) for copy in copies for end in copy}

        def of(field: str, count: int) -> tuple[Any, ...]:
            return tuple(found.get(Operand(field, index)) for index in range(count))

        self.layouts = KernelLayouts(
            inputs=of("inputs", len(request.inputs)),
            outputs=of("outputs", len(request.outputs)),
            out_grads=of("out_grads", len(request.out_grads)),
            in_grads=of("in_grads", len(request.in_grads)),
        )

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that copies."""

        def memory(end: End) -> Memory:
            return Memory(end.desc, end.operand.of(arrays))

        calls = [
            Launch(primitive, {Argument.SRC: memory(source), Argument.DST: memory(target)})
            for primitive, source, target in self._copies
        ]
        cleared = None if self._cleared is None else present(self._cleared.of(arrays))

        def call() -> None:
            if cleared is not None:
                cleared.fill(0)
            for each in calls:
                each()

        return call


def _reorder(source: End, target: End) -> Primitive:
    primitive = make_reorder(source.desc, target.desc)
    if primitive.optional_desc(Argument.SCRATCHPAD) is not None:
        raise KernelUnavailable("oneDNN wants a scratchpad to copy a tensor")
    return primitive
