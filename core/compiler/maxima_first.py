"""Maximum pooling moved before activations, as in LeNet: max(tanh(x)) is tanh(max(x)).

The function then has a quarter of the work for windows of 2x2, forwards and backwards.

Where a function rounds different numbers to one value, the gradient goes to the greatest of them,
and no longer to the first. They differ by rounding errors only, or the slope is close to 0.

Pooling ignores NaN, and makes the lowest number of a window of nothing else. Now it is the function
of that number that results: 0 for a ReLU, as before, and -1 for tanh.
"""

from __future__ import annotations

import functools
import math

from ..capabilities import layers
from ..capabilities.kinds import is_of
from ..ops.window import is_channels_last
from ..types import Shape
from .fuse_training import may_follow_norm
from .hoist_pooling import move_poolings
from .ir import Program, Step

__all__ = ["pool_before_activations"]


def pool_before_activations(program: Program, *, has_backward: bool) -> None:
    """Swap each activation with the maximum pooling that alone reads it, where that saves time.

    Runs before the backward pass is appended.

    Args:
        program: changed in place.
        has_backward: whether a backward pass will be appended.
    """
    move_poolings(program, functools.partial(_may_swap, program, has_backward))


def _may_swap(program: Program, has_backward: bool, step: Step, pool: Step) -> bool:
    function = step.op.pointwise()
    if function is None or not function.keeps_maximum or not _halves(program, pool):
        return False
    # Without a backward pass a layer computes a ReLU along with its output at no cost.
    return function.is_transcendental or (has_backward and not _is_part_of_norm(program, step))


def _is_part_of_norm(program: Program, activation: Step) -> bool:
    """Return whether the activation would be fused with a batch norm."""
    (data,) = activation.reads()
    is_norm = any(
        data in step.writes() for step in program.steps if is_of(step.op, layers.BATCH_NORM)
    )
    return is_norm and may_follow_norm(activation.op.pointwise())


def _halves(program: Program, pool: Step) -> bool:
    """Return whether a step takes maxima over windows, and no more of them than half the
    elements."""
    operator = pool.op
    if not is_of(operator, layers.POOLING) or operator.pool_type != "max":
        return False
    given, pooled = (program.values[slot].shape for slot in (*pool.reads(), *pool.writes()))
    if 2 * math.prod(pooled) > math.prod(given):
        return False
    spatial = slice(1, -1) if is_channels_last(operator.layout) else slice(2, None)
    return operator.global_pool or _reach_data(operator, given[spatial], pooled[spatial])


def _reach_data(operator: layers.Pooling, given: Shape, pooled: Shape) -> bool:
    """Return whether every window holds an element. To others pooling gives the lowest number,
    which an activation would change."""
    none, one = (0,) * len(given), (1,) * len(given)
    pad, stride = operator.pad if any(operator.pad) else none, operator.stride or one
    return all(
        before < size and (count - 1) * step - before < length
        for count, step, before, size, length in zip(
            pooled, stride, pad, operator.kernel, given, strict=True
        )
    )
