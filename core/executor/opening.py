"""Expansion of layers that another framework has fused: each stage becomes a step.

These steps are then fused, folded and laid out like all others. Only in plans without a backward
pass, because such layers have no gradient.
"""

from __future__ import annotations

from ..ops import Operator, make_operator
from ..ops.quantized.fused import FusedLayer
from .ir import Program, Slots, Step

__all__ = ["open_layers"]


def open_layers(program: Program) -> None:
    """Replace fused floating-point layers by the operators they consist of."""
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step.op, FusedLayer) and not step.op.quantized:
            steps += _opened(program, step, step.op)
        else:
            steps.append(step)
    program.replace_steps(steps, ())


def _opened(program: Program, step: Step, layer: FusedLayer) -> list[Step]:
    (out,) = step.writes()
    parts = _parts(step, layer)
    made: list[Step] = []
    current: int | None = None
    for number, (op, inputs) in enumerate(parts):
        is_last = number == len(parts) - 1
        target = out if is_last else _like(program, step, out)
        hidden = [_vector(program, step, inputs) for _ in op.output_names()[1:]]
        read = inputs if current is None else (current, *inputs)
        made.append(Step(op, step.node, read, (target, *hidden)))
        current = target
    return made


def _parts(step: Step, layer: FusedLayer) -> list[tuple[Operator, Slots]]:
    """Return the operators of a layer, each with its inputs other than its predecessor's output."""
    stages, count = layer.stages, len(layer.stages.layer.input_names())
    parts: list[tuple[Operator, Slots]] = [(stages.layer, step.inputs[:count])]
    if stages.norm is not None:
        parts.append((layer.inference_norm, step.inputs[count : count + 4]))
    if stages.activation is not None:
        parts.append((stages.activation, ()))
    if stages.has_sum:
        parts.append((make_operator("elemwise_add", step.node, {}), step.inputs[-1:]))
    if stages.last_activation is not None:
        parts.append((stages.last_activation, ()))
    return parts


def _like(program: Program, step: Step, out: int) -> int:
    value = program.values[out]
    return program.new_value(step.node, value.shape, value.dtype).id


def _vector(program: Program, step: Step, inputs: Slots) -> int:
    """Add a value for statistics of a batch norm, in the shape of gamma."""
    gamma = inputs[0]
    assert gamma is not None
    value = program.values[gamma]
    return program.new_value(step.node, value.shape, value.dtype).id
