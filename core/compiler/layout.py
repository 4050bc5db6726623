"""Kernel selection and layout assignment.

One walk over the forward pass, then one over the backward pass. Each step's kernel declares the
layouts of its operands; if a tensor is in another layout, a step that reorders it is inserted
before. A reordered copy is shared by all steps that want that layout. Bound arrays, outputs and the
operands of references are plain, except that elementwise references work in any layout. A fused
step for which there is no kernel is split before its reference is considered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

import ml_dtypes
import numpy as np

from ..kernels.kernel import Kernel, KernelLayouts, KernelRequest, KernelTable, Layout, reorder
from ..ops import Operator
from ..types import shape_size
from .blocks import prefers_blocks
from .fuse import without_last
from .ir import Place, Program, Slots, Step
from .primitives import Reorder

__all__ = ["choose_kernels"]

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BYTES = np.dtype("uint8")


def choose_kernels(
    program: Program,
    table: KernelTable,
    backend: str,
    constants: Set[int] = frozenset(),
    *,
    keep_reference: bool = False,
    in_bfloat16: bool = False,
) -> bool:
    """Choose the kernel of every step and insert reorders; return whether any kernel was found.

    Args:
        program: changed in place.
        table: the registered kernels.
        backend: name of the backend the program will run on.
        constants: values of arguments that have a version; reordered only when it changes.
        keep_reference: also keep alive what the references of backward kernels read.
        in_bfloat16: let kernels of inference multiply in bfloat16 what the graph has in float32.
    """
    if not table.has_any(backend):
        return False
    _Chooser(program, table, backend, constants, keep_reference, in_bfloat16).run()
    return any(step.kernel is not None for step in program.steps)


class _Chooser:
    def __init__(
        self,
        program: Program,
        table: KernelTable,
        backend: str,
        constants: Set[int],
        keep_reference: bool,
        in_bfloat16: bool,
    ) -> None:
        self._program = program
        self._table = table
        self._backend = backend
        self._constants = constants
        self._keep_reference = keep_reference
        has_blocks = table.traits(backend).blocks_channels
        self._prefers_blocks = has_blocks and prefers_blocks(program)
        self._in_bfloat16 = in_bfloat16
        self._only_infers = not program.is_train and not program.backward_steps
        self._steps: list[Step] = []
        self._reordered: dict[tuple[int, Layout | None], int] = {}
        self._selected: dict[KernelRequest[Operator], Kernel | None] = {}
        """Kernels by request: equal steps, such as those of unrolled layers, share one."""

    def run(self) -> None:
        program = self._program
        for step in program.forward_steps:
            self._choose(step)
        forward = self._steps
        self._steps = []
        for step in program.backward_steps:
            self._choose(step)
        program.replace_steps(forward, self._steps)

    def _choose(self, step: Step) -> None:
        self._look_through_views(step)
        kernel = step.kernel = self._select(step)
        if kernel is None and (parts := self._parts(step)):
            for part in parts:
                self._choose(part)
            return
        if step.source is not None and kernel is not None:
            self._read_what_the_kernel_reads(step, step.source, kernel)
        layouts = self._reference_layouts(step) if kernel is None else kernel.layouts
        step.inputs = self._wanted(step.inputs, layouts.inputs)
        if step.source is None:
            self._steps.append(step)
            step.outputs = self._produced(step.outputs, layouts.outputs)
            self._add_workspace(step)
        else:
            step.outputs = self._wanted(step.outputs, layouts.outputs)
            step.out_grads = self._wanted(step.out_grads, layouts.out_grads)
            self._steps.append(step)
            step.in_grads = self._produced(step.in_grads, layouts.in_grads)

    def _parts(self, step: Step) -> tuple[Step, ...]:
        """Return the steps that run instead of a fused one without a kernel, backwards only where
        they run forwards as well; none if it is not fused."""
        if step.source is not None and step.source.kernel is not None:
            return ()
        return step.parts or without_last(self._program, step) or ()

    def _select(self, step: Step) -> Kernel | None:
        # Kernels take addresses only, and read memory in C order.
        if any(self._program.memory(slot).id in self._program.strided for slot in step.reads()):
            return None
        request = self._request(step)
        if request not in self._selected:
            self._selected[request] = self._table.select(self._backend, request)
        return self._selected[request]

    def _reference_layouts(self, step: Step) -> KernelLayouts:
        """Return the layouts of a reference's operands: plain, or for an elementwise operator the
        layout that most of its inputs have."""
        slots = (step.inputs, step.outputs, step.out_grads, step.in_grads)
        layout = self._shared_layout(step)
        if layout is None:
            return KernelLayouts()
        return KernelLayouts(*((layout,) * len(one) for one in slots))

    def _shared_layout(self, step: Step) -> Layout | None:
        if not step.op.is_elementwise():
            return None
        values = self._program.values
        read = [values[slot] for slot in step.reads()]
        touched = {(value.shape, value.dtype) for value in read}
        touched |= {(values[slot].shape, values[slot].dtype) for slot in step.writes()}
        if len(touched) != 1:
            return None
        ((layout, _),) = Counter(value.layout for value in read).most_common(1)
        first = read[0]
        # No padding: it has to stay 0, and a function of 0 may not be 0. And elements of the
        # tensor's own dtype, as which the reference reads the bytes.
        is_dense = layout is not None and (
            layout.nbytes(first.shape, first.dtype)
            == shape_size(first.shape) * first.dtype.itemsize
        )
        return layout if is_dense else None

    def _look_through_views(self, step: Step) -> None:
        """Replace views of unchanged shape by their base, so that its layout can be used."""
        step.inputs = self._shown(step.inputs)
        step.out_grads = self._shown(step.out_grads)
        if step.is_backward:
            step.outputs = self._shown(step.outputs)

    def _shown(self, slots: Slots) -> Slots:
        return tuple(None if slot is None else self._base(slot) for slot in slots)

    def _base(self, slot: int) -> int:
        values = self._program.values
        while values[slot].is_view:
            base = values[slot].base
            assert base is not None
            if values[base].shape != values[slot].shape:
                break
            slot = base
        return slot

    def _request(self, step: Step) -> KernelRequest[Operator]:
        source = step.source or step
        program = self._program
        return KernelRequest(
            operator=step.op,
            is_backward=step.is_backward,
            is_train=program.is_train,
            inputs=program.specs(source.inputs),
            outputs=program.specs(source.outputs),
            out_grads=program.specs(step.out_grads),
            in_grads=program.specs(step.in_grads),
            is_constant=tuple(slot in self._constants for slot in source.inputs),
            forward=None if step.source is None else step.source.kernel,
            prefers_blocks=self._prefers_blocks,
            in_bfloat16=self._only_infers and (self._in_bfloat16 or self._is_declared_so(step)),
        )

    def _is_declared_so(self, step: Step) -> bool:
        """Tell whether the graph has in bfloat16 what a step multiplies: data and weight, or the
        two sides of a product."""
        values = self._program.values
        multiplied = [values[slot] for slot in step.inputs[:2] if slot is not None]
        return bool(multiplied) and all(value.declared == _BFLOAT16 for value in multiplied)

    def _read_what_the_kernel_reads(self, step: Step, source: Step, kernel: Kernel) -> None:
        """Give a backward step the operands of its kernel, which may be others than those of the
        reference that ``append_gradients`` has given it."""
        if kernel.backward_inputs is not None:
            inputs = self._newest(source.inputs, step.inputs)
            step.inputs = self._only(inputs, kernel.backward_inputs, step.inputs)
        if kernel.backward_outputs is not None:
            outputs = self._newest(source.outputs, step.outputs)
            step.outputs = self._only(outputs, kernel.backward_outputs, step.outputs)
        if source.kernel is not None:
            step.workspace = source.workspace

    def _newest(self, forward: Slots, backward: Slots) -> Slots:
        """Return the forward step's operands, replaced by recomputed ones where there are any."""
        recomputed = self._program.recomputed
        return tuple(
            again if again is not None and again in recomputed else slot
            for slot, again in zip(forward, backward, strict=True)
        )

    def _wanted(self, slots: Slots, layouts: Sequence[Layout | None]) -> Slots:
        """Return values with the same contents in the wanted layouts."""
        return tuple(
            None if slot is None else self._in_layout(slot, layout)
            for slot, layout in zip(slots, layouts or (None,) * len(slots), strict=True)
        )

    def _in_layout(self, slot: int, layout: Layout | None) -> int:
        program = self._program
        value = program.values[slot]
        if value.is_view:
            # A view assumes C order, so its base has to be reordered to plain layout first.
            assert value.base is not None
            value.base = self._in_layout(value.base, None)
        if value.layout == layout:
            return slot
        known = self._reordered.get((slot, layout))
        if known is not None:
            return known
        target = program.new_value(value.name, value.shape, value.dtype)
        target.layout = layout
        if slot in self._constants:
            # ``upcast`` has made some constants; these remember the variable they were made from.
            is_made = value.place is Place.CACHE
            target.place, target.index = Place.CACHE, value.index if is_made else slot
        self._reorder(slot, target.id)
        self._reordered[slot, layout] = target.id
        return target.id

    def _produced(self, slots: Slots, layouts: Sequence[Layout | None]) -> Slots:
        """Return the values to write instead; those that must be plain are reordered afterwards."""
        if not layouts:
            return slots
        program = self._program
        targets: list[int | None] = list(slots)
        for position, (slot, layout) in enumerate(zip(slots, layouts, strict=True)):
            if slot is None or layout is None:
                continue
            value = program.values[slot]
            if value.place is Place.ARENA:
                value.layout = layout
                continue
            blocked = program.new_value(value.name, value.shape, value.dtype)
            blocked.layout = layout
            targets[position] = blocked.id
            self._reorder(blocked.id, slot)
            # Steps that want this layout need not reorder the plain copy back.
            self._reordered[slot, layout] = blocked.id
        return tuple(targets)

    def _reorder(self, source: int, target: int) -> None:
        before, after = self._program.values[source], self._program.values[target]
        step = Step(Reorder(), before.name, (source,), (target,))
        step.kernel = reorder(before.spec, after.spec)
        self._steps.append(step)

    def _add_workspace(self, step: Step) -> None:
        kernel = step.kernel
        # Backward kernels that need a workspace decline programs that are not in training mode.
        if kernel is not None and kernel.workspace_bytes and self._program.is_train:
            name = f"{step.node}_workspace"
            size = (kernel.workspace_bytes,)
            step.workspace = self._program.new_value(name, size, _BYTES).id

    def _only(self, slots: Slots, indices: tuple[int, ...], reference: Slots) -> Slots:
        keep = self._keep_reference
        return tuple(
            slot if index in indices or (keep and reference[index] is not None) else None
            for index, slot in enumerate(slots)
        )
