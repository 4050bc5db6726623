"""Declaration of kernels: primitives, and the tensor of the step for each of their arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...types import Array
from ..kernel import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    Layout,
    TensorSpec,
)
from .constants import Argument, DataType, Propagation
from .memory import BlockedLayout, layout_of, reshaped
from .primitive import Primitive, in_turn, launch, scratchpad_bytes

__all__ = [
    "Launches",
    "Operand",
    "PrimitiveKernel",
    "are_float32",
    "forward_propagation",
    "in_grad",
    "input_",
    "layouts_of",
    "multiplied_type",
    "out_grad",
    "output",
    "present",
    "workspace",
]

_FLOAT32 = np.dtype("float32")
_AXES_OF_SEQUENCES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """One tensor of a step: a field of ``KernelArrays`` and a position in it."""

    field: str
    index: int = 0

    def of(self, arrays: KernelArrays) -> Array:
        """Return its array."""
        found = getattr(arrays, self.field)
        return present(found if self.field == "workspace" else found[self.index])


def input_(index: int) -> Operand:
    """The step's input."""
    return Operand("inputs", index)


def output(index: int = 0) -> Operand:
    """The step's output."""
    return Operand("outputs", index)


def out_grad(index: int = 0) -> Operand:
    """The gradient of an output."""
    return Operand("out_grads", index)


def in_grad(index: int = 0) -> Operand:
    """The gradient of an input."""
    return Operand("in_grads", index)


workspace = Operand("workspace")

Launch = tuple[Primitive, Mapping[Argument, Operand]]
Launches = list[Launch]


class PrimitiveKernel(Kernel):
    """A kernel that runs primitives one after the other.

    Args:
        name: for profiles and errors.
        request: the step.
        launches: each primitive with the operands it works on.
        inplace: as in ``Kernel``.
    """

    def __init__(
        self,
        name: str,
        request: KernelRequest[object],
        *launches: Launch,
        inplace: tuple[tuple[int, int], ...] | None = None,
    ) -> None:
        self.name = f"onednn:{name}"
        self.inplace = inplace
        self._launches = launches
        self.layouts = layouts_of(request, launches)
        operands = {operand for _, operands in launches for operand in operands.values()}
        if request.is_backward:
            self.backward_inputs = _indices(operands, "inputs")
            self.backward_outputs = _indices(operands, "outputs")
        elif workspace in operands:
            self.workspace_bytes = launches[0][0].desc(Argument.WORKSPACE).nbytes
        self.scratchpad_bytes = scratchpad_bytes(*(primitive for primitive, _ in launches))
        self.uses_scratch = False

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that runs all primitives."""
        launches = [
            launch(
                primitive,
                {argument: operand.of(arrays) for argument, operand in operands.items()},
                resources,
            )
            for primitive, operands in self._launches
        ]
        return in_turn(launches)


def layouts_of(request: KernelRequest[object], launches: Sequence[Launch]) -> KernelLayouts:
    """Return the layouts that primitives require of their operands; all others are plain.

    Two primitives that share an operand must require the same layout.
    """
    found: dict[Operand, BlockedLayout | None] = {}
    for primitive, operands in launches:
        for argument, operand in operands.items():
            if operand != workspace:
                layout = layout_of(primitive.desc(argument))
                assert found.setdefault(operand, layout) == layout, (operand, argument)

    def of(field: str, specs: Sequence[TensorSpec | None]) -> tuple[Layout | None, ...]:
        return tuple(
            _with_axes_of(spec, found.get(Operand(field, index)))
            for index, spec in enumerate(specs)
        )

    return KernelLayouts(
        inputs=of("inputs", request.inputs),
        outputs=of("outputs", request.outputs),
        out_grads=of("out_grads", request.out_grads),
        in_grads=of("in_grads", request.in_grads),
    )


def _with_axes_of(spec: TensorSpec | None, layout: BlockedLayout | None) -> Layout | None:
    """Remove the axis of height 1 with which a sequence was described to a primitive."""
    if layout is None or spec is None or len(spec.shape) != _AXES_OF_SEQUENCES:
        return layout
    batch, channels, length = spec.shape
    if layout.desc.dims != (batch, channels, 1, length):
        return layout
    return layout_of(reshaped(layout.desc, spec.shape))


def are_float32(request: KernelRequest[object]) -> bool:
    """Return whether all tensors of a step are float32 and none is empty or without axes, which
    oneDNN cannot describe."""
    specs = (*request.inputs, *request.outputs, *request.out_grads, *request.in_grads)
    return all(
        spec is None or (spec.dtype == _FLOAT32 and 0 not in spec.shape and spec.shape)
        for spec in specs
    )


def multiplied_type(request: KernelRequest[object]) -> DataType:
    """Return the type of the numbers that a layer multiplies; it adds them up in float32."""
    return DataType.BFLOAT16 if request.in_bfloat16 else DataType.FLOAT32


def present(array: Array | None) -> Array:
    """Return an array that must not be None."""
    assert array is not None
    return array


def forward_propagation(request: KernelRequest[object]) -> Propagation:
    """Return the propagation kind of a forward primitive: training or inference."""
    if request.is_train:
        return Propagation.FORWARD_TRAINING
    return Propagation.FORWARD_INFERENCE


def _indices(operands: set[Operand], field: str) -> tuple[int, ...]:
    return tuple(sorted(operand.index for operand in operands if operand.field == field))
