"""Concatenation without copies: producers write straight into their part of the output.

If the inputs of a concatenation lie one after the other in its output, each input's memory becomes
a part of the output's memory, and nothing is left to copy. In a chain of concatenations, where each
reads the one before, all lie in the memory of the last.

Only plans without a backward pass do this.
"""

from __future__ import annotations

from ..capabilities import arrays, fused, layers
from ..capabilities.kinds import is_of
from ..types import shape_size
from .ir import Place, Program, Step, Value
from .memory import ALIGNMENT
from .primitives import Joined

__all__ = ["join", "prefers_blocks"]

_BLOCK = 16
_AXES_OF_IMAGES = 4


def join(program: Program) -> bool:
    """Place inputs of concatenations inside the output; return whether any was placed.

    Runs after the choice of kernels, which tell the inputs' offsets, and before ``assign_inplace``.
    """
    if program.backward_steps:
        return False
    written = {value for step in program.steps for value in step.writes()}
    steps = program.forward_steps
    joined = False
    # The last of a chain comes first, so that the outputs of the others become parts of its output.
    for index in reversed(range(len(steps))):
        step = steps[index]
        if _may_join(program, step, written):
            _place(program, step)
            steps[index] = Step(Joined(), step.node, step.inputs, step.outputs)
            joined = True
    program.replace_steps(steps, [])
    return joined


def _may_join(program: Program, step: Step, written: set[int]) -> bool:
    parts = None if step.kernel is None else step.kernel.parts
    if parts is None or len(set(step.inputs)) != len(step.inputs):
        return False
    (out,) = step.outputs
    if out is None or not _is_free(program.values[out], written, is_whole=True):
        return False
    return all(
        slot is not None
        and begin % ALIGNMENT == 0
        and _is_free(program.values[slot], written, is_whole=False)
        for slot, begin in zip(step.inputs, parts, strict=True)
    )


def _is_free(value: Value, written: set[int], *, is_whole: bool) -> bool:
    """Return whether a value can be placed elsewhere.

    The output of a concatenation (``is_whole``) may itself already be a part of a larger one.
    """
    is_placed = value.base is not None and not (is_whole and value.part is not None)
    return value.place is Place.ARENA and value.id in written and not is_placed


def _place(program: Program, step: Step) -> None:
    assert step.kernel is not None
    assert step.kernel.parts is not None
    for slot, begin in zip(step.inputs, step.kernel.parts, strict=True):
        assert slot is not None
        value = program.values[slot]
        value.base, value.part = step.outputs[0], begin


def prefers_blocks(program: Program) -> bool:
    """Return whether to store images in blocks of channels, to concatenate them without copies.

    All concatenated images must be single ones whose channels fill whole blocks, and all
    convolutions as fast in this layout as with channels last: 1x1, and 3x3 with strides of 1.
    Convolutions of the graph's inputs do not count.
    """
    if program.is_train or program.backward_steps:
        return False
    joins = [step for step in program.steps if step.op.kind is arrays.CONCATENATION]
    images = [step for step in joins if _is_of_images(program, step)]
    return bool(images) and all(_is_as_fast(program, step) for step in program.steps)


def _is_of_images(program: Program, step: Step) -> bool:
    values = [program.values[slot] for slot in step.reads()]
    return all(
        len(value.shape) == _AXES_OF_IMAGES
        and value.shape[0] == 1
        and value.shape[1] % _BLOCK == 0
        and shape_size(value.shape[2:]) > 1
        for value in values
    )


def _is_as_fast(program: Program, step: Step) -> bool:
    operator = step.op
    if is_of(operator, fused.CONVOLUTION):
        layer = operator.layer
    elif is_of(operator, layers.CONVOLUTION):
        layer = operator
    else:
        # Transposed convolutions have their own choice of layouts.
        return operator.kind is not layers.DECONVOLUTION
    data, weight = (program.values[slot] for slot in step.reads()[:2])
    if data.place is Place.ARGUMENT:
        return True
    window = layer.window
    is_plain = window.stride == window.dilate == (1, 1) and layer.num_group == 1
    return is_plain and weight.shape[2:] in ((1, 1), (3, 3)) and data.shape[1] % _BLOCK == 0
