"""Pooling."""

from __future__ import annotations

import dataclasses
from functools import partial

from ...capabilities.layers import Pooling
from ...types import Shape
from ..kernel import Kernel, KernelRequest
from .constants import Algorithm, Argument
from .kernel import (
    PrimitiveKernel,
    are_float32,
    forward_propagation,
    in_grad,
    input_,
    out_grad,
    output,
    workspace,
)
from .memory import MemoryDesc, alternatives, any_layout
from .primitive import Primitive, first_available

__all__ = [
    "Problem",
    "adaptive_pooling",
    "adaptive_pooling_backward",
    "pooling",
    "pooling_backward",
]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Pooling as oneDNN takes it."""

    algorithm: Algorithm
    window: tuple[Shape, Shape, Shape, Shape, Shape]
    """Strides, kernel, dilations (0 for none), padding before and after the data."""

    @classmethod
    def of(
        cls, operator: Pooling, data: Shape, out: Shape, *, has_whole_windows: bool = False
    ) -> Problem | None:
        """Return the problem; None if oneDNN computes something else.

        oneDNN averages over whole windows, even if they reach beyond the padding.
        """
        sizes, counts, axes = data[2:], out[2:], len(data) - 2
        if operator.global_pool:
            kernel, stride, pad = sizes, (1,) * axes, (0,) * axes
        else:
            kernel, stride = operator.kernel, operator.stride or (1,) * axes
            pad = operator.pad if any(operator.pad) else (0,) * axes
        behind = tuple(
            (count - 1) * step + width - size - before
            for count, step, width, size, before in zip(
                counts, stride, kernel, sizes, pad, strict=True
            )
        )
        overhangs = not has_whole_windows and any(map(int.__gt__, behind, pad))
        algorithm = _algorithm(operator, overhangs=overhangs)
        outside = any(max(ends) >= width for *ends, width in zip(pad, behind, kernel, strict=True))
        if algorithm is None or outside:
            return None
        return cls(algorithm, (stride, kernel, (0,) * axes, pad, behind))

    @classmethod
    def even(cls, data: Shape, out: Shape) -> Problem | None:
        """Return average pooling with windows that tile the data; None if they overlap."""
        sizes, counts = data[2:], out[2:]
        if any(size % count for size, count in zip(sizes, counts, strict=True)):
            return None
        window = tuple(size // count for size, count in zip(sizes, counts, strict=True))
        none = (0,) * len(sizes)
        return cls(Algorithm.POOLING_AVERAGE_EXCLUDE_PADDING, (window, window, none, none, none))

    def forward(self, request: KernelRequest[object], data: MemoryDesc) -> Primitive:
        """Return the forward primitive for data in this layout; the output has the same."""
        return Primitive.of(
            "pooling_forward",
            forward_propagation(request),
            self.algorithm,
            data,
            any_layout(_shape(request), data.data_type),
            *self.window,
        )


class _Pooling(PrimitiveKernel):
    """The forward pass."""

    @property
    def primitive(self) -> Primitive:
        """Its primitive, which the backward pass needs as a hint."""
        return self._launches[0][0]


def pooling(request: KernelRequest[Pooling]) -> Kernel | None:
    """Prepare the forward pass; in training, positions of maxima are kept."""
    return _forward(request, _problem(request))


def pooling_backward(request: KernelRequest[Pooling]) -> Kernel | None:
    """Prepare the backward pass if ``pooling`` prepared the forward pass."""
    return _backward(request, _problem(request))


def adaptive_pooling(request: KernelRequest[object]) -> Kernel | None:
    """Prepare adaptive average pooling if its windows do not overlap."""
    return _forward(request, _even_problem(request))


def adaptive_pooling_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the backward pass if ``adaptive_pooling`` prepared the forward pass."""
    return _backward(request, _even_problem(request))


def _forward(request: KernelRequest[object], problem: Problem | None) -> Kernel | None:
    data = request.inputs[0]
    if problem is None or data is None:
        return None
    primitive = first_available(partial(problem.forward, request), alternatives(data))
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    if primitive.optional_desc(Argument.WORKSPACE) is not None:
        operands[Argument.WORKSPACE] = workspace
    return _Pooling("pooling", request, (primitive, operands))


def _backward(request: KernelRequest[object], problem: Problem | None) -> Kernel | None:
    forward = request.forward
    if problem is None or not isinstance(forward, _Pooling) or not request.is_train:
        return None
    hint = forward.primitive
    primitive = Primitive.of(
        "pooling_backward",
        problem.algorithm,
        hint.desc(Argument.SRC),
        hint.desc(Argument.DST),
        *problem.window,
        hint,
    )
    operands = {Argument.DIFF_DST: out_grad(), Argument.DIFF_SRC: in_grad()}
    if hint.optional_desc(Argument.WORKSPACE) is not None:
        operands[Argument.WORKSPACE] = workspace
    return PrimitiveKernel("pooling_backward", request, (primitive, operands))


def _problem(request: KernelRequest[Pooling]) -> Problem | None:
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    if request.operator.layout not in (None, "NCW", "NCHW", "NCDHW"):
        return None
    return Problem.of(request.operator, data.shape, _shape(request))


def _even_problem(request: KernelRequest[object]) -> Problem | None:
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    return Problem.even(data.shape, _shape(request))


def _algorithm(operator: Pooling, *, overhangs: bool) -> Algorithm | None:
    if operator.pool_type == "max":
        return Algorithm.POOLING_MAX
    if operator.pool_type != "avg":
        return None
    if operator.count_include_pad is False:
        return Algorithm.POOLING_AVERAGE_EXCLUDE_PADDING
    # MXNet clips windows that reach beyond the padding; oneDNN does not.
    return None if overhangs else Algorithm.POOLING_AVERAGE_INCLUDE_PADDING


def _shape(request: KernelRequest[object]) -> Shape:
    out = request.outputs[0]
    assert out is not None
    return out.shape
