"""Reductions over axes, and their gradients.

Plain tensors are reduced in stages; all pixels of an image are reduced in its layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...capabilities.arrays import Reducing
from ...capabilities.functions import Reduction
from ...types import Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .constants import Algorithm, Argument
from .global_pooling import is_over_places, places_extreme, places_spreading, places_sum
from .kernel import Operand, are_float32, in_grad, input_, out_grad, output, present
from .primitive import launch, scratchpad_bytes
from .staged_reduction import Repetitions, Stage, Sums, count_of, in_parts, reducing, stages_of

__all__ = ["StageKernel", "reduction", "reduction_backward"]

_FLOAT32 = np.dtype("float32")
_FEW = 1 << 10
"""Largest number of elements in a row for which NumPy finds extremes more slowly."""


class StageKernel(Kernel):
    """Sums or repetitions of a plain tensor of a step.

    Args:
        name: of the kernel.
        work: the sums or repetitions.
        source, target: the operands to read and write.
    """

    inplace = ()
    backward_inputs = ()
    backward_outputs = ()
    uses_scratch = False

    def __init__(
        self, name: str, work: Sums | Repetitions, source: Operand, target: Operand
    ) -> None:
        self.name = f"onednn:{name}"
        self.scratchpad_bytes = work.scratchpad_bytes
        self._work, self._source, self._target = work, source, target

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that runs them."""
        return self._work.bind(self._source.of(arrays), self._target.of(arrays), resources)


class _OfRows(Kernel):
    """The product, minimum or maximum of each row.

    Args:
        stage: sizes of the rows.
        algorithm: the reduction.
        repair: recomputes rows that have a NaN, which oneDNN may lose; None if it does not.
    """

    name = "onednn:reduction"
    inplace = ()
    uses_scratch = False

    def __init__(self, stage: Stage, algorithm: Algorithm, repair: np.ufunc | None = None) -> None:
        self._rows = (stage.outer, stage.size)
        self._repair = repair
        self._primitive = reducing(stage, algorithm)
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
            # Zero times any finite number is zero, but times infinity or NaN it is NaN.
            np.dot(rows, zeros, out=spoiled)
            if spoiled.any():
                repair.reduce(rows, axis=1, out=target)

        return call


class _Norm(Kernel):
    """Euclidean norms of rows: the square roots of their products with themselves."""

    name = "onednn:norm"
    inplace = ()
    uses_scratch = False

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that multiplies."""
        outer, size, *_ = self._stages[0]
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


def reduction(request: KernelRequest[Reducing]) -> Kernel | None:
    """Prepare a reduction."""
    match request.operator.reduction():
        case Reduction.SUM:
            return _total(request, is_mean=False)
        case Reduction.MEAN:
            return _total(request, is_mean=True)
        case Reduction.PRODUCT:
            return _product(request)
        case Reduction.MAXIMUM:
            return _extreme(request, Algorithm.REDUCTION_MAX, np.maximum)
        case Reduction.MINIMUM:
            return _extreme(request, Algorithm.REDUCTION_MIN, np.minimum)
        case Reduction.LENGTH:
            return _length(request)
    return None


def reduction_backward(request: KernelRequest[Reducing]) -> Kernel | None:
    """Prepare the gradient of sums and means, unless it is the same number for all elements."""
    known = request.operator.reduction()
    is_mean = known is Reduction.MEAN
    if not is_mean and known is not Reduction.SUM:
        return None
    data, stages = request.inputs[0], _stages(request)
    grad = request.out_grads[0]
    if data is None or grad is None or not stages or math.prod(grad.shape) == 1:
        return None
    if is_over_places(data, _axes(request, data.shape)):
        return places_spreading(request, is_mean=is_mean)
    repeat = Repetitions(stages, 1 / count_of(stages) if is_mean else 1.0)
    return StageKernel("reduction_backward", repeat, out_grad(), in_grad())


def _total(request: KernelRequest[Reducing], *, is_mean: bool) -> Kernel | None:
    """Prepare sums and means."""
    data, stages = request.inputs[0], _stages(request)
    if data is None or not stages:
        return None
    if is_over_places(data, _axes(request, data.shape)):
        return places_sum(request, is_mean=is_mean)
    sums = Sums.of(stages, 1 / count_of(stages) if is_mean else 1.0)
    return None if sums is None else StageKernel("reduction", sums, input_(0), output())


def _product(request: KernelRequest[Reducing]) -> Kernel | None:
    """Prepare products over the last axes."""
    stage = _only_rows(request)
    return None if stage is None else _OfRows(stage, Algorithm.REDUCTION_PRODUCT)


def _extreme(
    request: KernelRequest[Reducing], algorithm: Algorithm, choose: np.ufunc
) -> Kernel | None:
    """Prepare maxima and minima over the last axes, for short rows: NumPy takes longer per row, but
    less per element."""
    stage, data = _only_rows(request), request.inputs[0]
    if stage and data is not None and is_over_places(data, _axes(request, data.shape)):
        found = places_extreme(data, choose)
        if found is not None:
            return found
    if stage is None or stage.size > _FEW:
        return None
    return _OfRows(stage, algorithm, choose)


def _length(request: KernelRequest[Reducing]) -> Kernel | None:
    """Prepare Euclidean norms over the last axes."""
    stage = _only_rows(request)
    parts = [] if stage is None else in_parts([stage])
    return _Norm(parts) if parts else None


def _axes(request: KernelRequest[Reducing], shape: Shape) -> Shape:
    return tuple(request.operator.axes(len(shape)))


def _stages(request: KernelRequest[Reducing]) -> list[Stage]:
    """Return the stages; none if there is nothing to reduce or there is no kernel."""
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return []
    return stages_of(data.shape, _axes(request, data.shape))


def _only_rows(request: KernelRequest[Reducing]) -> Stage | None:
    stages = _stages(request)
    return stages[0] if len(stages) == 1 and stages[0].inner == 1 else None
