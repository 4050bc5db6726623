"""Reductions over axes, and what their gradients spread.

A plain tensor is reduced one group of neighbouring axes after the other, the innermost first: rows,
whose elements lie one behind the other, or columns, of which many lie side by side. oneDNN
generates code for long rows; short ones are a product with a vector, and columns are pooled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from core.backends.kernels import Kernel, KernelArrays, KernelRequest, KernelResources
from core.backends.onednn.channel_sums import scaled
from core.backends.onednn.constants import Algorithm, Argument, Propagation
from core.backends.onednn.kernel import are_float32, present
from core.backends.onednn.memory import MemoryDesc, plain, strided
from core.backends.onednn.places import is_over_places, places_spreading, places_sum
from core.backends.onednn.primitive import Launch, Primitive, launch, scratchpad_bytes
from core.types import Array, Shape

__all__ = ["Stage", "Sums", "extreme", "norm", "product_of", "stages_of", "total", "total_backward"]

_FLOAT32 = np.dtype("float32")
_SHORT = 128
"""Elements of rows that a product of matrices adds up faster than oneDNN's reduction."""
_LONG = 1 << 12
"""Elements of a row that are added up at once at most, or sums would lose digits."""
_FEW = 1 << 10
"""Elements of rows whose extremes numpy finds more slowly."""


class Stage(NamedTuple):
    """The middle one of three axes is reduced."""

    outer: int
    size: int
    inner: int


def stages_of(shape: Shape, axes: Shape) -> list[Stage]:
    """Return the reductions, one after the other, of a tensor over some of its axes."""
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
    """Return a stage of long rows as several of shorter ones, where they divide evenly."""
    outer, size, inner = stage
    if inner > 1 or size <= _LONG:
        return [stage]
    length = next((n for n in range(_LONG, _SHORT, -1) if size % n == 0), size)
    if length == size:
        return [stage]
    count = size // length
    return [Stage(outer * count, length, 1), *_split(Stage(outer, count, 1))]


class Sums:
    """Adds up over some axes of a plain tensor, and multiplies by a factor."""

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
        """Return the sums over these axes; None where there are none, or rows are too long."""
        return cls.of(stages_of(shape, axes), factor)

    @classmethod
    def of(cls, stages: Sequence[Stage], factor: float = 1.0) -> Sums | None:
        """Return the sums of these stages; None where there are none, or rows are too long."""
        parts = _parts(stages)
        return cls(parts, factor) if parts else None

    def bind(self, source: Array, out: Array, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that adds up."""
        calls: list[Callable[[], Any]] = []
        for index, (stage, primitive) in enumerate(
            zip(self._stages, self._primitives, strict=True)
        ):
            target = out.reshape(-1)
            if index < len(self._stages) - 1:
                target = resources.allocate((stage.outer * stage.inner,), _FLOAT32)
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


class _Adding(Kernel):
    """The forward pass of sums and means."""

    name = "onednn:reduction"
    inplace = ()
    uses_scratch = False

    def __init__(self, sums: Sums) -> None:
        self._sums = sums
        self.scratchpad_bytes = sums.scratchpad_bytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that adds up."""
        return self._sums.bind(present(arrays.inputs[0]), present(arrays.outputs[0]), resources)


class _Spreading(Kernel):
    """Repeats along axes, one stage after the other, and multiplies by a factor."""

    name = "onednn:reduction_backward"
    inplace = ()
    backward_inputs = ()
    backward_outputs = ()
    uses_scratch = False

    def __init__(self, stages: Sequence[Stage], factor: float) -> None:
        self._stages = stages
        self._factors = [factor, *[1.0] * (len(stages) - 1)]
        self._primitives = [
            _repeating(stage, each) for stage, each in zip(stages, self._factors, strict=True)
        ]
        self.scratchpad_bytes = scratchpad_bytes(*self._primitives)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that repeats."""
        source, whole = present(arrays.out_grads[0]), present(arrays.in_grads[0])
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


class _OfRows(Kernel):
    """The product or an extreme of each row.

    Args:
        stage: of rows.
        algorithm: the reduction's.
        repair: computes what oneDNN does not where a row has a NaN, which it may lose; None where
            it does not.
    """

    name = "onednn:reduction"
    inplace = ()
    uses_scratch = False

    def __init__(self, stage: Stage, algorithm: Algorithm, repair: Any = None) -> None:
        self._rows = (stage.outer, stage.size)
        self._repair = repair
        self._primitive = _reducing(stage, algorithm)
        self.scratchpad_bytes = scratchpad_bytes(self._primitive)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that reduces."""
        data, out = present(arrays.inputs[0]), present(arrays.outputs[0])
        reduce = launch(self._primitive, {Argument.SRC: data, Argument.DST: out}, resources)
        repair = self._repair
        if repair is None:
            return reduce.call
        rows, target = data.reshape(self._rows), out.reshape(-1)
        zeros = resources.allocate(self._rows[1:], _FLOAT32)
        zeros.fill(0)
        spoiled = resources.allocate(self._rows[:1], _FLOAT32)

        def call() -> None:
            reduce()
            # Zero times a number is zero, but not where that is infinite or none at all.
            np.dot(rows, zeros, out=spoiled)
            if spoiled.any():
                repair(rows, axis=1, out=target)

        return call


class _Norm(Kernel):
    """The lengths of rows: the roots of their products with themselves."""

    name = "onednn:norm"
    inplace = ()
    uses_scratch = False

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that multiplies."""
        outer, size, _ = self._stages[0]
        data, out = present(arrays.inputs[0]), present(arrays.outputs[0]).reshape(-1)
        has_parts = len(self._stages) > 1
        squares = resources.allocate((outer,), _FLOAT32) if has_parts else out
        rows, columns = data.reshape(outer, 1, size), data.reshape(outer, size, 1)
        products, parts = squares.reshape(outer, 1, 1), squares.reshape(len(out), -1)

        def call() -> None:
            np.matmul(rows, columns, out=products)
            if has_parts:
                np.sum(parts, axis=1, out=out)
            np.sqrt(out, out=out)

        return call


def total(request: KernelRequest) -> Kernel | None:
    """Prepare sums and means."""
    data, stages = request.inputs[0], _stages(request)
    if data is None or not stages:
        return None
    is_mean, axes = request.operator.names[0] == "mean", _axes(request, data.shape)
    if is_over_places(data, axes):
        return places_sum(request, is_mean=is_mean)
    sums = Sums.over(data.shape, axes, 1 / _count(stages) if is_mean else 1.0)
    return None if sums is None else _Adding(sums)


def total_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the gradient of sums and means, where it is not one number for all."""
    data, stages = request.inputs[0], _stages(request)
    grad = request.out_grads[0]
    if data is None or grad is None or not stages or math.prod(grad.shape) == 1:
        return None
    is_mean = request.operator.names[0] == "mean"
    if is_over_places(data, _axes(request, data.shape)):
        return places_spreading(request, is_mean=is_mean)
    return _Spreading(stages[::-1], 1 / _count(stages) if is_mean else 1.0)


def product_of(request: KernelRequest) -> Kernel | None:
    """Prepare products over the last axes."""
    stage = _only_rows(request)
    return None if stage is None else _OfRows(stage, Algorithm.REDUCTION_PRODUCT)


def extreme(request: KernelRequest) -> Kernel | None:
    """Prepare maxima and minima over the last axes; numpy takes longer for each row, but less for
    each element."""
    stage = _only_rows(request)
    if stage is None or stage.size > _FEW:
        return None
    if request.operator.names[0] == "max":
        return _OfRows(stage, Algorithm.REDUCTION_MAX, np.amax)
    return _OfRows(stage, Algorithm.REDUCTION_MIN, np.amin)


def norm(request: KernelRequest) -> Kernel | None:
    """Prepare Euclidean norms over the last axes."""
    stage = _only_rows(request)
    parts = _parts([stage]) if stage is not None and request.operator.ord == 2 else []
    return _Norm(parts) if parts else None


def _axes(request: KernelRequest, shape: Shape) -> Shape:
    return tuple(request.operator.axes(len(shape)))


def _stages(request: KernelRequest) -> list[Stage]:
    """Return the stages; none where there is nothing to reduce, or no kernel for it."""
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return []
    if getattr(request.operator, "initial", None) is not None:
        return []
    return stages_of(data.shape, _axes(request, data.shape))


def _parts(stages: Sequence[Stage]) -> list[Stage]:
    """Return stages in which no row is too long to be added up; none where that cannot be."""
    parts = [part for stage in stages for part in _split(stage)]
    is_sound = all(part.inner > 1 or part.size <= _LONG for part in parts)
    return parts if is_sound else []


def _count(stages: Sequence[Stage]) -> int:
    return math.prod(stage.size for stage in stages)


def _only_rows(request: KernelRequest) -> Stage | None:
    stages = _stages(request)
    return stages[0] if len(stages) == 1 and stages[0].inner == 1 else None


def _adding(stage: Stage, factor: float) -> Primitive | None:
    """Return the primitive that adds up; None where that is a product with a vector."""
    if stage.inner == 1:
        if stage.size < _SHORT:
            return None
        return _reducing(stage, Algorithm.REDUCTION_SUM, factor)
    outer, size, inner = stage
    images, pixels = _columns(stage), _columns(Stage(outer, 1, inner))
    return Primitive.of(
        "pooling_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.POOLING_AVERAGE_EXCLUDE_PADDING,
        images,
        pixels,
        (1,),
        (size,),
        (0,),
        (0,),
        (0,),
        post=scaled(size * factor),
    )


def _reducing(stage: Stage, algorithm: Algorithm, factor: float = 1.0) -> Primitive:
    rows, numbers = plain((stage.outer, stage.size)), plain((stage.outer, 1))
    return Primitive.of("reduction", algorithm, rows, numbers, 0.0, 0.0, post=scaled(factor))


def _repeating(stage: Stage, factor: float) -> Primitive:
    """Return the primitive that repeats: a product with a row of factors, or an enlargement."""
    outer, size, inner = stage
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
    """Return columns as images of one line, channels last."""
    outer, size, inner = stage
    return strided((outer, inner, size), (size * inner, 1, inner))


def _one_after_the_other(launches: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    if len(launches) == 1 and isinstance(launches[0], Launch):
        return launches[0].call

    def call() -> None:
        for each in launches:
            each()

    return call
