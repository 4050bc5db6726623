"""Operator fusion in plans with a backward pass.

A batch norm and the ReLU or clip (as in ReLU6) that follows it become one step: kernels compute the
normalized data again, and neither these nor the gradient between the two are ever written. An LRN
drops the output that only its backward pass reads; its two kernels share a workspace instead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from ..capabilities.functions import Function, Pointwise, is_relu
from ..capabilities.fused import BATCH_NORM_ACTIVATION, LOCAL_RESPONSE
from ..capabilities.kinds import Kind, implements, is_of
from ..capabilities.layers import BATCH_NORM
from ..ops import Operator, Reads, Run
from ..ops.norm import BatchNorm
from ..ops.norm_scale import LRN
from ..types import Array, is_half
from .fuse import FusedLocalResponse
from .ir import Place, Program, Slots, Step
from .primitives import Primitive

__all__ = ["NormActivation", "fuse_local_responses", "fuse_norms", "may_follow_norm"]

_FLOAT32 = np.dtype("float32")  # what these kernels compute in; some store half precision
_IMAGE_AXES = 4


@implements(BATCH_NORM_ACTIVATION)
class NormActivation(Primitive):
    """A batch norm with a ReLU or clip on its output. Whether NaN passes a ReLU the kernel decides.

    Attributes:
        norm: the batch norm, whose inputs, statistics and auxiliary states these are.
        activation: the operator behind it.
    """

    names = ("_plan_batch_norm_activation",)

    def __init__(self, norm: BatchNorm, activation: Operator) -> None:
        self.norm, self.activation = norm, activation

    def input_names(self) -> tuple[str, ...]:
        return self.norm.input_names()

    def auxiliary_names(self) -> tuple[str, ...]:
        return self.norm.auxiliary_names()

    def output_names(self) -> tuple[str, ...]:
        return self.norm.output_names()

    def visible_outputs(self) -> int:
        return 1

    def backward_reads(self) -> Reads:
        # Beta, too, which the batch norm's own backward does not read: data is normalized again.
        return Reads(inputs=(0, 1, 2, 3, 4), outputs=(0, *self.norm.backward_reads().outputs))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Normalize, then apply the activation."""
        out = outputs[0]
        normal = run.scratch(out.shape, out.dtype)
        self.norm.forward(run, inputs, [normal, *outputs[1:]])
        self.activation.forward(run, [normal], [out])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Normalize again, then differentiate the activation and the batch norm."""
        grad, out = out_grads[0], outputs[0]
        normal, masked = (run.scratch(out.shape, out.dtype) for _ in range(2))
        again = [run.scratch(one.shape, one.dtype) for one in outputs[1:]]
        # This changes no state: the running averages are updated by ``norm.backward`` alone.
        self.norm.forward(run, inputs, [normal, *again])
        self.activation.backward(run, [grad], [normal], [out], [masked])
        self.norm.backward(run, [masked, *out_grads[1:]], inputs, outputs, in_grads)


def may_follow_norm(function: Pointwise | None) -> bool:
    """Return whether a function can be fused with the batch norm before it: a ReLU or clip."""
    is_clip = function is not None and function.function is Function.CLIP
    return is_clip or is_relu(function)


def fuse_norms(program: Program, kernels: Set[Kind[Any]]) -> bool:
    """Fuse each batch norm with a ReLU or clip if only that reads the normalized data and only the
    batch norm reads its gradient; return whether there is any.

    Args:
        program: changed in place.
        kernels: kinds of operators that have kernels.
    """
    if not (program.is_train and program.backward_steps and BATCH_NORM_ACTIVATION in kernels):
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
        self._readers: dict[int, list[Step]] = defaultdict(list)
        for step in program.steps:
            for value in step.reads():
                self._readers[value].append(step)
        self._backward = {step.source: step for step in program.backward_steps}
        viewed = (value.base for value in program.values if value.base is not None)
        self._kept = {*program.outputs, *program.gradients.values(), *viewed}

    def run(self) -> bool:
        program = self._program
        # The fused steps stand in the places of the activation forwards and of the batch norm
        # backwards: each is the later one of its pair, so all that they read is written by then.
        replaced: dict[Step, Step | None] = {}
        for norm in program.forward_steps:
            last = self._activation_behind(norm)
            if last is None or not isinstance(norm.op, BatchNorm):
                continue
            fused = Step(
                NormActivation(norm.op, last.op),
                norm.node,
                norm.inputs,
                (last.outputs[0], *norm.outputs[1:]),
                updates=norm.updates,
                parts=(norm, last),
            )
            norm_back, last_back = self._backward[norm], self._backward[last]
            replaced.update({norm: None, last: fused, last_back: None})
            replaced[norm_back] = Step(
                fused.op,
                norm.node,
                _filled(norm_back.inputs, norm.inputs),
                (last.outputs[0], *norm_back.outputs[1:]),
                (last_back.out_grads[0], *norm_back.out_grads[1:]),
                norm_back.in_grads,
                source=fused,
                updates=norm_back.updates,
                parts=(last_back, norm_back),
            )
        program.replace_steps(
            self._kept_steps(program.forward_steps, replaced),
            self._kept_steps(program.backward_steps, replaced),
        )
        return bool(replaced)

    def _kept_steps(self, steps: Sequence[Step], replaced: dict[Step, Step | None]) -> list[Step]:
        found = (replaced.get(step, step) for step in steps)
        return [step for step in found if step is not None]

    def _activation_behind(self, norm: Step) -> Step | None:
        """Return the ReLU or clip that can be fused with a step, if it is a batch norm."""
        if not self._is_norm(norm):
            return None
        last = self._activation_of(norm.outputs[0])
        if last is None:
            return None
        norm_back, last_back = self._backward.get(norm), self._backward.get(last)
        if norm_back is None or last_back is None or norm_back.in_grads[0] is None:
            return None
        between = last_back.in_grads[0]
        is_handed_on = between is not None and norm_back.out_grads[0] == between
        return last if is_handed_on and self._only_reader(between) is norm_back else None

    def _activation_of(self, normal: int | None) -> Step | None:
        """Return the ReLU or clip that alone reads the normalized data; its backward step may read
        them as well, because they are computed again when it is fused."""
        if normal is None or not self._is_hidden(normal):
            return None
        readers = self._readers[normal]
        found = [step for step in readers if not step.is_backward]
        if len(found) != 1 or any(step.source not in (None, found[0]) for step in readers):
            return None
        return found[0] if may_follow_norm(found[0].op.pointwise()) else None

    def _is_norm(self, step: Step) -> bool:
        op, is_single = step.op, step.op.visible_outputs() == 1
        if step.is_backward or not is_of(op, BATCH_NORM):
            return False
        data = step.inputs[0]
        assert data is not None
        value = self._program.values[data]
        return (
            not op.use_global_stats
            and op.axis == 1
            and is_single
            and (value.dtype == _FLOAT32 or is_half(value.dtype))
            and len(value.shape) > 2
        )

    def _only_reader(self, slot: int | None) -> Step | None:
        """Return the only step that reads a value; None if there are more or it is an output."""
        if slot is None or not self._is_hidden(slot) or len(self._readers[slot]) != 1:
            return None
        return self._readers[slot][0]

    def _is_hidden(self, slot: int) -> bool:
        return slot not in self._kept and self._program.values[slot].place is Place.ARENA


def _filled(slots: Slots, others: Slots) -> Slots:
    """Return values by position, those of others if there are none."""
    return tuple(other if slot is None else slot for slot, other in zip(slots, others, strict=True))
