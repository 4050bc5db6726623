"""Operator fusion in plans with a backward pass.

A batch norm and the ReLU that follows it become one step: a mask records where the ReLU passes its
input, and neither the normalized data nor the gradient between the two is ever written. An LRN
drops the output that only its backward pass reads; its two kernels share a workspace instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from ..capabilities.functions import is_relu
from ..capabilities.fused import BATCH_NORM_RELU, LOCAL_RESPONSE
from ..capabilities.kinds import Kind, implements
from ..capabilities.layers import BATCH_NORM
from ..ops import Reads, Run
from ..ops.norm import BatchNorm
from ..ops.norm_scale import LRN
from ..types import Array
from .fuse import FusedLocalResponse
from .ir import Place, Program, Step
from .primitives import Primitive

__all__ = ["NormRelu", "fuse_local_responses", "fuse_norms"]

_FLOAT32 = np.dtype("float32")
_IMAGE_AXES = 4


@implements(BATCH_NORM_RELU)
class NormRelu(Primitive):
    """A batch norm with a ReLU on its output. Whether NaN passes the ReLU is up to the kernel.

    Attributes:
        norm: the batch norm, whose inputs, statistics and auxiliary states these are.
    """

    names = ("_plan_batch_norm_relu",)

    def __init__(self, norm: BatchNorm) -> None:
        self.norm = norm

    def input_names(self) -> tuple[str, ...]:
        return self.norm.input_names()

    def auxiliary_names(self) -> tuple[str, ...]:
        return self.norm.auxiliary_names()

    def output_names(self) -> tuple[str, ...]:
        return self.norm.output_names()

    def visible_outputs(self) -> int:
        return 1

    def backward_reads(self) -> Reads:
        reads = self.norm.backward_reads()
        return Reads(inputs=reads.inputs, outputs=(0, *reads.outputs))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Normalize, then clip at zero."""
        self.norm.forward(run, inputs, outputs)
        run.xp.fmax(outputs[0], 0, out=outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Mask the gradient, then differentiate the batch norm."""
        grad, shown = out_grads[0], run.scratch(outputs[0].shape, "bool")
        masked = run.scratch(grad.shape, grad.dtype)
        run.xp.greater(outputs[0], 0, out=shown)
        run.xp.multiply(grad, shown, out=masked)
        self.norm.backward(run, [masked, *out_grads[1:]], inputs, outputs, in_grads)


def fuse_norms(program: Program, kernels: Set[Kind[Any]]) -> bool:
    """Fuse each batch norm with a ReLU if only the ReLU reads the normalized data and only the
    batch norm reads its gradient; return whether there is any.

    Args:
        program: changed in place.
        kernels: kinds of operators that have kernels.
    """
    if not (program.is_train and program.backward_steps and BATCH_NORM_RELU in kernels):
        return False
    return _Fuser(program).run()


def fuse_local_responses(program: Program, kernels: Set[Kind[Any]]) -> bool:
    """Drop from each LRN over images the sums that only its backward pass reads; return whether
    there is any.

    Args:
        program: changed in place.
        kernels: kinds of operators that have kernels.
    """
    if LOCAL_RESPONSE not in kernels:
        return False
    reads = Counter(value for step in program.steps for value in step.reads())
    replaced: dict[Step, Step] = {}
    for back in program.backward_steps:
        step = back.source
        if step is None or not isinstance(step.op, LRN) or not _reads_images(program, step):
            continue
        sums = step.outputs[1]
        if sums is None or reads[sums] != 1 or back.outputs[1] != sums:
            continue
        fused = Step(FusedLocalResponse(step.op), step.node, step.inputs, step.outputs[:1])
        replaced[step] = fused
        replaced[back] = Step(
            fused.op,
            step.node,
            back.inputs,
            back.outputs[:1],
            back.out_grads[:1],
            back.in_grads,
            source=fused,
        )
    program.replace_steps(
        [replaced.get(step, step) for step in program.forward_steps],
        [replaced.get(step, step) for step in program.backward_steps],
    )
    return bool(replaced)


def _reads_images(program: Program, step: Step) -> bool:
    """Return whether a step is a forward step of the program and reads float32 images."""
    if step not in program.forward_steps:
        return False
    data = step.inputs[0]
    assert data is not None
    value = program.values[data]
    return value.dtype == _FLOAT32 and len(value.shape) == _IMAGE_AXES


class _Fuser:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._reads = Counter(value for step in program.steps for value in step.reads())
        self._readers = {value: step for step in program.steps for value in step.reads()}
        self._backward = {step.source: step for step in program.backward_steps}
        viewed = (value.base for value in program.values if value.base is not None)
        self._kept = {*program.outputs, *program.gradients.values(), *viewed}

    def run(self) -> bool:
        program = self._program
        replaced: dict[Step, Step | None] = {}
        for norm in program.forward_steps:
            relu = self._relu_behind(norm)
            if relu is None or not isinstance(norm.op, BatchNorm):
                continue
            fused = Step(
                NormRelu(norm.op),
                norm.node,
                norm.inputs,
                (relu.outputs[0], *norm.outputs[1:]),
                updates=norm.updates,
            )
            norm_back, relu_back = self._backward[norm], self._backward[relu]
            replaced.update({norm: None, relu: fused, relu_back: None})
            replaced[norm_back] = Step(
                fused.op,
                norm.node,
                norm_back.inputs,
                (relu.outputs[0], *norm_back.outputs[1:]),
                (relu_back.out_grads[0], *norm_back.out_grads[1:]),
                norm_back.in_grads,
                source=fused,
                updates=norm_back.updates,
            )
        program.replace_steps(
            self._kept_steps(program.forward_steps, replaced),
            self._kept_steps(program.backward_steps, replaced),
        )
        return bool(replaced)

    def _kept_steps(self, steps: Sequence[Step], replaced: dict[Step, Step | None]) -> list[Step]:
        found = (replaced.get(step, step) for step in steps)
        return [step for step in found if step is not None]

    def _relu_behind(self, norm: Step) -> Step | None:
        """Return the ReLU that can be fused with a step, if it is a batch norm."""
        if not self._is_norm(norm):
            return None
        relu = self._only_reader(norm.outputs[0])
        if relu is None or relu.is_backward:
            return None
        if not is_relu(relu.op.pointwise()):
            return None
        norm_back, relu_back = self._backward.get(norm), self._backward.get(relu)
        if norm_back is None or relu_back is None or norm_back.in_grads[0] is None:
            return None
        between = relu_back.in_grads[0]
        is_handed_on = between is not None and norm_back.out_grads[0] == between
        return relu if is_handed_on and self._only_reader(between) is norm_back else None

    def _is_norm(self, step: Step) -> bool:
        if step.is_backward or step.op.kind is not BATCH_NORM:
            return False
        data = step.inputs[0]
        assert data is not None
        value = self._program.values[data]
        return (
            not getattr(step.op, "use_global_stats", False)
            and getattr(step.op, "axis", None) == 1
            and step.op.visible_outputs() == 1
            and value.dtype == _FLOAT32
            and len(value.shape) > 2
        )

    def _only_reader(self, slot: int | None) -> Step | None:
        """Return the only step that reads a value; None if there are more or it is an output."""
        if slot is None or self._reads[slot] != 1 or slot in self._kept:
            return None
        is_hidden = self._program.values[slot].place is Place.ARENA
        return self._readers[slot] if is_hidden else None
