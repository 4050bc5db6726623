"""Operator fusion: a layer and the operators that follow it become one step.

Only for plans without a backward pass, because nothing else reads the values between those steps. A
convolution absorbs the inference batch norm that follows it, the addition of a residual, and an
activation; a fully connected layer absorbs an activation; a remaining inference batch norm absorbs
a ReLU; an LRN drops the output that only a backward pass reads. A fused step for which there turns
out to be no kernel is split again, from its end.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence, Set
from typing import Any, Generic, TypeVar

from ..capabilities import fused as fused_kinds
from ..capabilities import layers
from ..capabilities.functions import Arithmetic, is_relu
from ..capabilities.kinds import Kind, implements, is_of
from ..ops import Operator, Reads, Run, get_operator
from ..ops.conv import Convolution
from ..ops.dense import FullyConnected
from ..ops.norm import BatchNorm
from ..ops.norm_scale import LRN
from ..types import Array
from .ir import Place, Program, Step
from .primitives import Primitive

__all__ = [
    "Fused",
    "FusedConvolution",
    "FusedDense",
    "FusedLocalResponse",
    "FusedNorm",
    "fuse",
    "without_last",
]


L = TypeVar("L", bound=Operator)


class Fused(Primitive, Generic[L]):
    """A layer and the operators fused with it. Inputs: those of the layer, those of the batch norm
    except its data, the residual.

    Attributes:
        layer: the first operator.
        batch_norm: a batch norm in inference mode, or None.
        has_residual: whether the last input is a residual to be added.
        activation: the last operator, or None.
    """

    def __init__(self, layer: L) -> None:
        self.layer = layer
        self.batch_norm: BatchNorm | None = None
        self.has_residual = False
        self.activation: Operator | None = None

    def input_names(self) -> tuple[str, ...]:
        names = self.layer.input_names()
        if self.batch_norm is not None:
            names += self.batch_norm.input_names()[1:]
        return (*names, "residual") if self.has_residual else names

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run one operator after the other; all but the first work in place."""
        out, count = outputs[0], len(self.layer.input_names())
        self.layer.forward(run, inputs[:count], [out])
        if self.batch_norm is not None:
            vectors = inputs[count : count + 4]
            # The operator always writes its mean and variance, which nothing reads here.
            statistics = [run.scratch(vectors[0].shape, vectors[0].dtype) for _ in range(2)]
            self.batch_norm.forward(run, [out, *vectors], [out, *statistics])
        if self.has_residual:
            run.xp.add(out, inputs[-1], out=out)
        if self.activation is not None:
            source = out
            if (0, 0) not in self.activation.inplace_forward():
                source = run.scratch(out.shape, out.dtype)
                run.xp.copyto(source, out)
            self.activation.forward(run, [source], [out])

    def without_last(self) -> tuple[Operator, Operator, int] | None:
        """Split the last operator off: return the rest, that operator, and how many of the inputs
        belong to it; None for a layer alone."""
        rest = copy.copy(self)
        last: Operator
        if self.activation is not None:
            last, rest.activation, count = self.activation, None, 0
        elif self.has_residual:
            last, rest.has_residual, count = get_operator("elemwise_add")(), False, 1
        elif self.batch_norm is not None:
            last, rest.batch_norm = FusedNorm(self.batch_norm), None
            count = len(self.batch_norm.input_names()) - 1
        else:
            return None
        is_whole = rest.has_residual or rest.batch_norm is not None
        return rest if is_whole else rest.alone(), last, count

    def alone(self) -> Operator:
        """Return the layer as a step of its own with one output."""
        return self.layer


@implements(fused_kinds.CONVOLUTION)
class FusedConvolution(Fused[Convolution]):
    """A convolution with the operators fused with it."""

    names = ("_plan_convolution",)


@implements(fused_kinds.FULLY_CONNECTED)
class FusedDense(Fused[FullyConnected]):
    """A fully connected layer with an activation."""

    names = ("_plan_fully_connected",)


@implements(fused_kinds.BATCH_NORM)
class FusedNorm(Fused[BatchNorm]):
    """An inference batch norm without its statistics, which nothing reads, with a ReLU."""

    names = ("_plan_batch_norm",)

    def alone(self) -> Operator:
        """Return the batch norm, still without its statistics."""
        return FusedNorm(self.layer)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run one after the other."""
        statistics = [run.scratch(inputs[1].shape, inputs[1].dtype) for _ in range(2)]
        self.layer.forward(run, inputs, [outputs[0], *statistics])
        if self.activation is not None:
            self.activation.forward(run, outputs, outputs)


@implements(fused_kinds.LOCAL_RESPONSE)
class FusedLocalResponse(Fused[LRN]):
    """An LRN without its output of sums; its backward pass, the only reader, recomputes them."""

    names = ("_plan_local_response",)

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run the LRN with the sums in scratch memory."""
        sums = run.scratch(outputs[0].shape, outputs[0].dtype)
        self.layer.forward(run, inputs, [outputs[0], sums])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Recompute output and sums in scratch memory, then run the LRN's backward."""
        again = [run.scratch(inputs[0].shape, inputs[0].dtype) for _ in range(2)]
        self.layer.forward(run, inputs, again)
        self.layer.backward(run, out_grads, inputs, again, in_grads)


_LAYERS: dict[Kind[Any], type[Fused[Any]]] = {
    layers.BATCH_NORM: FusedNorm,
    layers.CONVOLUTION: FusedConvolution,
    layers.FULLY_CONNECTED: FusedDense,
    layers.LOCAL_RESPONSE: FusedLocalResponse,
}


def fuse(program: Program, kernels: Set[Kind[Any]], constants: Set[int]) -> bool:
    """Fuse what can be fused; return whether anything was.

    Args:
        program: changed in place.
        kernels: kinds of operators that have kernels.
        constants: values of arguments and auxiliary states that have a version. A batch norm is
            folded into the weights only if all are constants, because folding at every run would
            cost more than it saves.
    """
    return not program.backward_steps and _Fuser(program, kernels, constants).run()


def without_last(program: Program, step: Step) -> tuple[Step, Step] | None:
    """Split a fused step in two: all operators but the last, and the last one; None if the step
    has only one operator."""
    parts = step.op.without_last() if isinstance(step.op, Fused) else None
    if parts is None:
        return None
    rest, last, count = parts
    (out,) = step.outputs
    assert out is not None
    value = program.values[out]
    between = program.new_value(f"{step.node}_before_{last.names[0]}", value.shape, value.dtype).id
    split = len(step.inputs) - count
    return (
        Step(rest, step.node, step.inputs[:split], (between,)),
        Step(last, step.node, (between, *step.inputs[split:]), step.outputs),
    )


class _Fuser:
    def __init__(self, program: Program, kernels: Set[Kind[Any]], constants: Set[int]) -> None:
        self._program = program
        self._kernels = kernels
        self._constants = constants
        self._reads = Counter(value for step in program.steps for value in step.reads())
        self._readers = {value: step for step in program.steps for value in step.reads()}
        self._fused: dict[Step, Step] = {}
        self._absorbed: set[Step] = set()
        # A value that others are views of has readers that ``_reads`` does not count.
        viewed = (value.base for value in program.values if value.base is not None)
        self._kept = {*program.outputs, *viewed}

    def run(self) -> bool:
        program = self._program
        for step in program.steps:
            self._grow(step)
        steps = [self._fused.get(step, step) for step in program.steps]
        kept = [step for step in steps if step not in self._absorbed]
        program.replace_steps(kept, [])
        return bool(self._fused)

    def _grow(self, step: Step) -> None:
        """Fuse a layer with as many followers as possible; the fused step replaces the last one."""
        kind = None if step.op.kind is None else _LAYERS.get(step.op.kind)
        if kind is None or kind.kind not in self._kernels:
            return
        if step in self._absorbed or step in self._fused:
            return
        # These two gain from fusion even without a follower: they drop outputs that nothing reads.
        is_alone = kind in (FusedNorm, FusedLocalResponse)
        if is_alone and not self._hides_statistics(step):
            return
        if kind is FusedNorm and not self._is_inference(step):
            return
        fused, inputs, last = kind(step.op), list(step.inputs), step
        while True:
            follower = self._follower(last)
            if follower is None or not self._take(fused, inputs, last, follower):
                break
            self._absorbed.add(last)
            last = follower
        if last is not step or is_alone:
            # In the place of the last, because a residual may be written after the layer.
            self._fused[last] = Step(fused, last.node, tuple(inputs), last.outputs[:1])

    def _follower(self, step: Step) -> Step | None:
        """Return the only reader of what a step writes; None if there are more."""
        out = step.outputs[0]
        assert out is not None
        is_hidden = self._program.values[out].place is Place.ARENA and out not in self._kept
        if not is_hidden or self._reads[out] != 1:
            return None
        follower = self._readers[out]
        return None if follower in self._fused or follower in self._absorbed else follower

    def _take(
        self, fused: Fused[Any], inputs: list[int | None], last: Step, follower: Step
    ) -> bool:
        """Add a follower to a fused operator; return whether that was possible."""
        op, out = follower.op, last.outputs[0]
        if fused.activation is not None or isinstance(fused, FusedLocalResponse):
            return False
        function = op.pointwise()
        # oneDNN's batch norm applies no other activation.
        if isinstance(fused, FusedNorm) and not is_relu(function):
            return False
        if function is not None and not function.is_special:
            fused.activation = op
            return True
        if not isinstance(fused, FusedConvolution) or fused.has_residual:
            return False
        if op.arithmetic() is Arithmetic.ADD and self._is_uniform(follower):
            fused.has_residual = True
            inputs.extend(other for other in follower.inputs if other != out)
            return True
        if isinstance(op, BatchNorm) and self._is_foldable(fused, inputs, follower):
            fused.batch_norm = op
            inputs.extend(follower.inputs[1:])
            return True
        return False

    def _is_uniform(self, step: Step) -> bool:
        """Return whether all values that a step reads and writes have one shape and dtype."""
        values = (self._program.values[slot] for slot in (*step.reads(), *step.writes()))
        return len({(value.shape, value.dtype) for value in values}) == 1

    def _is_foldable(self, fused: Fused[Any], inputs: list[int | None], norm: Step) -> bool:
        values, data = self._program.values, norm.inputs[0]
        assert data is not None
        return (
            fused.batch_norm is None
            and self._is_inference(norm)
            and self._hides_statistics(norm)
            and self._constants >= {*inputs[1:], *norm.inputs[1:]}
            and is_of(fused.layer, layers.CONVOLUTION)
            # The norm is over axis 1, which in these layouts are the channels of the filters.
            and fused.layer.layout in (None, "NCW", "NCHW", "NCDHW")
            # Kernels fold in float32, which ``upcast`` has made of half precision by now.
            and values[data].dtype.itemsize == 4
        )

    def _is_inference(self, norm: Step) -> bool:
        """Return whether a step is a batch norm that normalizes by its running statistics."""
        op = norm.op
        if not is_of(op, layers.BATCH_NORM):
            return False
        return op.axis == 1 and (op.use_global_stats or not self._program.is_train)

    def _hides_statistics(self, step: Step) -> bool:
        """Return whether nothing reads the outputs of a step other than the first."""
        hidden = step.outputs[1:]
        return not any(
            value in self._kept or self._reads[value] for value in hidden if value is not None
        )
