"""Copies between layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernel import Kernel, KernelArrays, KernelResources, TensorSpec
from .constants import Argument
from .kernel import present
from .memory import BlockedLayout, MemoryDesc, desc_of, loaded
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["Reordering", "make_reorder", "reorder"]


class Reordering(Kernel):
    """Copies ``inputs[0]`` to ``outputs[0]``."""

    name = "onednn:reorder"

    def __init__(self, primitive: Primitive) -> None:
        self._primitive = primitive
        self.scratchpad_bytes = scratchpad_bytes(primitive)
        self.uses_scratch = False

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that copies."""
        source, target = present(arrays.inputs[0]), present(arrays.outputs[0])
        tensors = {Argument.SRC: source, Argument.DST: target}
        return launch(self._primitive, tensors, resources).call


def reorder(source: TensorSpec, target: TensorSpec) -> Kernel:
    """Return the kernel that copies a tensor to or from one of oneDNN's layouts, or between two."""
    layout = target.layout if source.layout is None else source.layout
    assert isinstance(layout, BlockedLayout)
    # A plain tensor is described with oneDNN's axes, which may differ from those in the graph.
    dims = layout.desc.dims
    return Reordering(make_reorder(desc_of(source, dims), desc_of(target, dims)))


def make_reorder(source: MemoryDesc, target: MemoryDesc) -> Primitive:
    """Return the primitive that copies from one layout to another."""
    engine = loaded().engine
    return Primitive.of("reorder", source, engine, target, engine)
