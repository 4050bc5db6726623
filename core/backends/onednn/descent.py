"""Stochastic gradient descent in one pass over weights, momentum and gradients.

All of a step except the last addition is a single primitive: a product with post-operations. A
post-operation can scale only the sum so far, so the terms before an addend are divided by the
addend's factor first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...types import Array
from ..backend import Descent
from ..kernels import KernelUnavailable
from .constants import Algorithm, Argument
from .library import is_available
from .memory import Memory, plain
from .primitive import Launch, PostOperation, Primitive

__all__ = ["descend"]

_FLOAT32 = np.dtype("float32")
_PIECE = 1 << 19
"""Elements updated at a time: weight, velocity and gradient stay in the caches."""

_LEAST_FACTOR = 1e-12
"""Smaller factors are not used as divisors."""

_FEWEST = 1024
"""For fewer elements, NumPy is faster than calling the library."""


def descend(weight: Array, velocity: Array | None, gradient: Array, step: Descent) -> bool:
    """Take a step; return whether the library supports it.

    Args:
        weight, velocity, gradient: one-dimensional; the first two are updated in place. Without a
            velocity there is no momentum.
        step: the factors.
    """
    size = weight.shape[0]
    if size < _FEWEST or not _can(weight, velocity, gradient, step):
        return False
    for start in range(0, size, _PIECE):
        stop = min(start + _PIECE, size)
        part = None if velocity is None else velocity[start:stop]
        try:
            pass_ = _pass_of(stop - start, step, velocity is not None)
        except KernelUnavailable:
            return False
        pass_.run(weight[start:stop], part, gradient[start:stop], step)
    return True


def _can(weight: Array, velocity: Array | None, gradient: Array, step: Descent) -> bool:
    arrays = [weight, gradient] if velocity is None else [weight, velocity, gradient]
    factors = [step.decay] if velocity is None else [step.decay, step.momentum]
    return (
        all(one.dtype == _FLOAT32 and one.flags.c_contiguous for one in arrays)
        and all(factor == 0 or abs(factor) > _LEAST_FACTOR for factor in factors)
        and (velocity is None or step.momentum != 0)
        and (step.clip >= 0)
        and is_available()
    )


class _Pass:
    """The primitives for pieces of one size, for any arrays and factors."""

    def __init__(self, size: int, clip: float, has_decay: bool, has_velocity: bool) -> None:
        desc, scalar = plain((size,)), plain((1,))
        self._weight, self._gradient = Memory(desc, None), Memory(desc, None)
        self._velocity = Memory(desc, None)
        self._factors: list[Array] = []
        self._has_decay = has_decay
        target = self._velocity if has_velocity else self._weight

        def factor() -> Memory:
            self._factors.append(np.ones(1, _FLOAT32))
            return Memory(scalar, self._factors[-1])

        multiply = ("binary", Algorithm.BINARY_MULTIPLY, scalar)
        add = ("binary", Algorithm.BINARY_ADD, desc)
        memories = {Argument.SRC: self._gradient, Argument.SRC_1: factor(), Argument.DST: target}
        post: list[PostOperation] = []

        def append(operation: PostOperation, operand: Memory | None = None) -> None:
            post.append(operation)
            if operand is not None:
                memories[Argument.of_post_operation(len(post) - 1)] = operand

        if clip:
            append(("eltwise", Algorithm.ELTWISE_CLIP, -clip, clip))
        if has_decay:
            append(multiply, factor())
            append(add, self._weight)
        append(multiply, factor())
        append(add, target)
        append(multiply, factor())
        update = Primitive.of(
            "binary", Algorithm.BINARY_MULTIPLY, desc, scalar, desc, post=tuple(post)
        )
        self._calls: list[Callable[[], Any]] = [Launch(update, memories)]
        if has_velocity:
            move = Primitive.of("binary", Algorithm.BINARY_ADD, desc, desc, desc)
            moved = {Argument.SRC: self._weight, Argument.SRC_1: self._velocity}
            self._calls.append(Launch(move, {**moved, Argument.DST: self._weight}))

    def run(self, weight: Array, velocity: Array | None, gradient: Array, step: Descent) -> None:
        """Update one piece."""
        self._weight.point_to(weight)
        self._gradient.point_to(gradient)
        if velocity is not None:
            self._velocity.point_to(velocity)
        kept = step.momentum if velocity is not None else 1.0
        factors = [step.rescale, -step.rate / kept, kept]
        if self._has_decay:
            factors[1:2] = [1 / step.decay, -step.rate * step.decay / kept]
        for target, factor in zip(self._factors, factors, strict=True):
            target[0] = factor
        for call in self._calls:
            call()


class _Passes(threading.local):
    """A cache, per thread, of primitives for recently used sizes, the latest last."""

    most = 32

    def __init__(self) -> None:
        self.known: dict[tuple[int, float, bool, bool], _Pass] = {}


_passes = _Passes()


def _pass_of(size: int, step: Descent, has_velocity: bool) -> _Pass:
    key = (size, step.clip, step.decay != 0, has_velocity)
    found = _passes.known.pop(key, None) or _Pass(*key)
    _passes.known[key] = found
    if len(_passes.known) > _passes.most:
        del _passes.known[next(iter(_passes.known))]
    return found
