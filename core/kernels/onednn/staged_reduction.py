"""Reduction and repetition of plain tensors along one group of neighbouring axes at a time.

The innermost group is reduced first and repeated last. A group is reduced along rows, whose
elements are contiguous, or along columns, which are interleaved. Long rows use oneDNN's reductions,
short rows a product with a vector of ones, and columns average pooling.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...types import Array, Shape
from ..kernel import KernelResources
from .channel_sums import scaled
from .constants import Algorithm, Argument, Propagation
from .memory import MemoryDesc, plain, strided
from .primitive import Launch, Primitive, launch, scratchpad_bytes

__all__ = ["Repetitions", "Stage", "Sums", "count_of", "in_parts", "reducing", "stages_of"]

_FLOAT32 = np.dtype("float32")
_SHORT = 128
"""Largest number of elements in a row that a matrix product sums faster than oneDNN's reduction."""
_LONG = 1 << 12
"""Largest number of elements summed in one pass; longer float32 sums would lose precision."""


_WINDOW = 32
"""Number of rows that are added to one running sum; more would lose digits."""


class Stage(NamedTuple):
    """A reduction of the middle one of three axes, to one element or to several parts."""

    outer: int
    size: int
    inner: int
    parts: int = 1


def stages_of(shape: Shape, axes: Shape) -> list[Stage]:
    """Return the stages, in order, of a tensor's reduction over some of its axes."""
    marked = [(axis in axes, size) for axis, size in enumerate(shape) if size > 1]
    groups = [
        (is_reduced, math.prod(size for _, size in group))
        for is_reduced, group in itertools.groupby(marked, key=lambda one: one[0])
    ]
    stages = []
    for index in reversed(range(len(groups))):
        if groups[index][0]:
            outer = math.prod(size for _, size in groups[:index])
            inner = math.prod(size for is_reduced, size in groups[index + 1 :] if not is_reduced)
            stages.append(Stage(outer, groups[index][1], inner))
    return stages


def _split(stage: Stage) -> list[Stage]:
    """Split a stage of long rows, or of many, into several stages with shorter sums.

    Rows are divided if they divide evenly, into few, long parts.
    """
    outer, size, inner, _ = stage
    if inner > 1:
        if size <= _WINDOW:
            return [stage]
        parts = -(-size // _WINDOW)
        return [Stage(outer, size, inner, parts), *_split(Stage(outer, parts, inner))]
    if size <= _LONG:
        return [stage]
    length = next((n for n in range(_LONG, _SHORT, -1) if size % n == 0), size)
    if length == size:
        return [stage]
    count = size // length
    return [Stage(outer * count, length, 1), *_split(Stage(outer, count, 1))]


class Sums:
    """Sums over some axes of a plain tensor, times a factor."""

    def __init__(self, stages: Sequence[Stage], factor: float) -> None:
        self._stages = stages
        self._factors = [*[1.0] * (len(stages) - 1), factor]
        self._primitives = [
            _adding(stage, each) for stage, each in zip(stages, self._factors, strict=True)
        ]
        made = (primitive for primitive in self._primitives if primitive is not None)
        self.scratchpad_bytes = scratchpad_bytes(*made)

    @classmethod
    def over(cls, shape: Shape, axes: Shape, factor: float = 1.0) -> Sums | None:
        """Return the sums over these axes; None if there are none, or rows are too long."""
        return cls.of(stages_of(shape, axes), factor)

    @classmethod
    def of(cls, stages: Sequence[Stage], factor: float = 1.0) -> Sums | None:
        """Return the sums of these stages; None if there are none, or rows are too long."""
        parts = in_parts(stages)
        return cls(parts, factor) if parts else None

    def bind(self, source: Array, out: Array, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the sums."""
        calls: list[Callable[[], Any]] = []
        for index, (stage, primitive) in enumerate(
            zip(self._stages, self._primitives, strict=True)
        ):
            target = out.reshape(-1)
            if index < len(self._stages) - 1:
                size = stage.outer * stage.parts * stage.inner
                target = resources.allocate((size,), _FLOAT32)
            if primitive is None:
                weights = resources.allocate((stage.size,), _FLOAT32)
                weights.fill(self._factors[index])
                rows = source.reshape(stage.outer, stage.size)
                calls.append(partial(np.dot, rows, weights, target))
            else:
                tensors = {Argument.SRC: source, Argument.DST: target}
                calls.append(launch(primitive, tensors, resources))
            source = target
        return _one_after_the_other(calls)


class Repetitions:
    """Repeats a plain tensor along reduced axes, and multiplies by a factor.

    Args:
        stages: stages of the reductions to reverse.
        factor: the factor.
    """

    def __init__(self, stages: Sequence[Stage], factor: float = 1.0) -> None:
        self._stages = stages = stages[::-1]
        self._factors = [factor, *[1.0] * (len(stages) - 1)]
        self._primitives = [
            _repeating(stage, each) for stage, each in zip(stages, self._factors, strict=True)
        ]
        self.scratchpad_bytes = scratchpad_bytes(*self._primitives)

    def bind(self, source: Array, whole: Array, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that repeats."""
        calls: list[Callable[[], Any]] = []
        for index, (stage, primitive) in enumerate(
            zip(self._stages, self._primitives, strict=True)
        ):
            target = whole
            if index < len(self._stages) - 1:
                target = resources.allocate((math.prod(stage),), _FLOAT32)
            tensors = {Argument.SRC: source, Argument.DST: target}
            if stage.inner == 1:
                weights = resources.allocate((stage.size,), _FLOAT32)
                weights.fill(self._factors[index])
                tensors[Argument.WEIGHTS] = weights
            calls.append(launch(primitive, tensors, resources))
            source = target
        return _one_after_the_other(calls)


def in_parts(stages: Sequence[Stage]) -> list[Stage]:
    """Return stages in which no row is too long to be summed; none if that is impossible."""
    parts = [part for stage in stages for part in _split(stage)]
    is_sound = all(part.inner > 1 or part.size <= _LONG for part in parts)
    return parts if is_sound else []


def count_of(stages: Sequence[Stage]) -> int:
    """Return the number of elements in each sum."""
    return math.prod(stage.size for stage in stages)


def reducing(stage: Stage, algorithm: Algorithm, factor: float = 1.0) -> Primitive:
    """Return the primitive that reduces rows and multiplies by a factor."""
    rows, numbers = plain((stage.outer, stage.size)), plain((stage.outer, 1))
    return Primitive.of("reduction", algorithm, rows, numbers, 0.0, 0.0, post=scaled(factor))


def _adding(stage: Stage, factor: float) -> Primitive | None:
    """Return the primitive that sums; None if it is a product with a vector."""
    if stage.inner == 1:
        if stage.size < _SHORT:
            return None
        return reducing(stage, Algorithm.REDUCTION_SUM, factor)
    outer, size, inner, parts = stage
    window = size if parts == 1 else _WINDOW
    return Primitive.of(
        "pooling_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.POOLING_AVERAGE_INCLUDE_PADDING,
        _columns(stage),
        _columns(Stage(outer, parts, inner)),
        (window,),
        (window,),
        (0,),
        (0,),
        (parts * window - size,),
        post=scaled(window * factor),
    )


def _repeating(stage: Stage, factor: float) -> Primitive:
    """Return the primitive that repeats: an outer product with a row of factors, or a resizing."""
    outer, size, inner, _ = stage
    if inner == 1:
        numbers, row, rows = plain((outer, 1)), plain((1, size)), plain((outer, size))
        return Primitive.of("matmul", numbers, row, None, rows)
    return Primitive.of(
        "resampling_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.RESAMPLING_NEAREST,
        None,
        _columns(Stage(outer, 1, inner)),
        _columns(stage),
        post=scaled(factor),
    )


def _columns(stage: Stage) -> MemoryDesc:
    """Return columns as images with a single row, channels last."""
    outer, size, inner, _ = stage
    return strided((outer, inner, size), (size * inner, 1, inner))


def _one_after_the_other(launches: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    if len(launches) == 1 and isinstance(launches[0], Launch):
        return launches[0].call

    def call() -> None:
        for each in launches:
            each()

    return call
