"""Average pooling moved before 1x1 convolutions, as in the transitions of DenseNet.

Both are linear and neither looks at what the other varies over, so their order does not matter to
the result. A convolution of the smaller image takes a quarter of the work for windows of 2x2.
"""

from __future__ import annotations

import math
from collections import Counter

from ..capabilities import layers
from ..capabilities.kinds import is_of
from ..types import Shape, is_floating
from .ir import Place, Program, Step

__all__ = ["pool_before_convolutions"]

_CHANNELS_FIRST = (None, "NCW", "NCHW", "NCDHW")


def pool_before_convolutions(program: Program) -> None:
    """Swap each 1x1 convolution with the average pooling that alone reads it.

    Runs before the backward pass is appended.
    """
    reads = Counter(slot for step in program.steps for slot in step.reads())
    writers = {slot: step for step in program.steps for slot in step.writes()}
    steps = list(program.steps)
    for pool in program.steps:
        # The pooling moves up a chain of 1x1 convolutions, one at a time.
        while _is_mean(program, pool):
            (data,) = pool.reads()
            convolution = writers.get(data)
            if convolution is None or reads[data] > 1 or not _is_pointwise(program, convolution):
                break
            steps.remove(convolution)
            steps.insert(steps.index(pool) + 1, convolution)
            _swap(program, convolution, pool)
    program.replace_steps(steps, [])


def _is_pointwise(program: Program, step: Step) -> bool:
    """Return whether a step convolves each place of an image by itself."""
    operator = step.op
    if not is_of(operator, layers.CONVOLUTION) or operator.layout not in _CHANNELS_FIRST:
        return False
    window = operator.window
    is_single = math.prod(window.kernel) == math.prod(window.stride) == 1
    value = program.values[step.writes()[0]]
    is_hidden = value.place is Place.ARENA
    # A padded convolution adds a border, and means of integers are rounded.
    return is_single and not any(window.pad) and is_hidden and is_floating(value.dtype)


def _is_mean(program: Program, step: Step) -> bool:
    """Return whether a step makes an image smaller, by means over windows that lie inside it.

    In others the zeros around the image would count, to which a convolution would add its bias if
    it came last.
    """
    operator = step.op
    if not is_of(operator, layers.POOLING) or operator.layout not in _CHANNELS_FIRST:
        return False
    given, pooled = (program.values[slot].shape[2:] for slot in (*step.reads(), *step.writes()))
    if operator.pool_type != "avg" or math.prod(pooled) >= math.prod(given):
        return False
    return operator.global_pool or (not any(operator.pad) and _lie_inside(operator, given, pooled))


def _lie_inside(operator: layers.Pooling, given: Shape, pooled: Shape) -> bool:
    stride = operator.stride or (1,) * len(given)
    return all(
        (count - 1) * step + size <= length
        for count, step, size, length in zip(pooled, stride, operator.kernel, given, strict=True)
    )


def _swap(program: Program, convolution: Step, pool: Step) -> None:
    """Let the pooling read the convolution's data, and the convolution write its output."""
    data, *parameters = convolution.inputs
    assert data is not None
    given, (out,) = program.values[data], pool.writes()
    shape = (*given.shape[:2], *program.values[out].shape[2:])
    pooled = program.new_value(f"{pool.node}_data", shape, given.dtype)
    pool.inputs, pool.outputs = (data,), (pooled.id,)
    convolution.inputs, convolution.outputs = (pooled.id, *parameters), (out,)
