"""Average pooling moved before 1x1 convolutions, as in the transitions of DenseNet.

Both are linear and neither looks at what the other varies over, so their order does not matter to
the result. A convolution of the smaller image takes a quarter of the work for windows of 2x2.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable

from ..capabilities import layers
from ..capabilities.kinds import is_of
from ..types import Shape, is_floating
from .ir import Place, Program, Step

__all__ = ["hoist_poolings", "move_poolings"]

_CHANNELS_FIRST = (None, "NCW", "NCHW", "NCDHW")


def hoist_poolings(program: Program) -> None:
    """Swap each 1x1 convolution with the average pooling that alone reads it.

    Runs before the backward pass is appended.
    """
    move_poolings(program, functools.partial(_may_swap, program))


def move_poolings(program: Program, may_swap: Callable[[Step, Step], bool]) -> None:
    """Swap each step with the pooling that alone reads it, where ``may_swap(step, pool)``."""
    reads = Counter(slot for step in program.steps for slot in step.reads())
    writers = {slot: step for step in program.steps for slot in step.writes()}
    steps = list(program.steps)
    for pool in program.steps:
        # The pooling moves up a chain of such steps, one at a time.
        while is_of(pool.op, layers.POOLING):
            (data,) = pool.reads()
            step = writers.get(data)
            is_hidden = program.values[data].place is Place.ARENA
            if step is None or reads[data] > 1 or not is_hidden or not may_swap(step, pool):
                break
            steps.remove(step)
            steps.insert(steps.index(pool) + 1, step)
            _swap(program, step, pool)
    program.replace_steps(steps, [])


def _may_swap(program: Program, step: Step, pool: Step) -> bool:
    return _is_mean(program, pool) and _is_pointwise(program, step)


def _is_pointwise(program: Program, step: Step) -> bool:
    """Return whether a step convolves each place of an image by itself."""
    operator = step.op
    if not is_of(operator, layers.CONVOLUTION) or operator.layout not in _CHANNELS_FIRST:
        return False
    window = operator.window
    is_single = math.prod(window.kernel) == math.prod(window.stride) == 1
    dtype = program.values[step.writes()[0]].dtype
    # A padded convolution adds a border, and means of integers are rounded.
    return is_single and not any(window.pad) and is_floating(dtype)


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


def _swap(program: Program, step: Step, pool: Step) -> None:
    """Let the pooling read the step's data, and the step write the pooling's output."""
    data, *parameters = step.inputs
    assert data is not None
    given = program.values[data]
    _, (shape,) = pool.op.infer_shape([given.shape], [None])
    assert shape is not None
    pooled = program.new_value(f"{pool.node}_data", shape, given.dtype)
    step.inputs, step.outputs = (pooled.id, *parameters), pool.outputs
    pool.inputs, pool.outputs = (data,), (pooled.id,)
