"""Convolution."""

from __future__ import annotations

import contextlib
import dataclasses
import math

from ...capabilities.layers import Convolution, HasLayout
from ...types import Shape
from ..kernel import Kernel, KernelRequest, KernelUnavailable, TensorSpec
from .constants import Algorithm, Argument, DataType
from .conv_as_matmul import full_width_convolution
from .kernel import (
    Launches,
    PrimitiveKernel,
    are_float32,
    forward_propagation,
    in_grad,
    input_,
    multiplied_type,
    out_grad,
    output,
)
from .memory import MemoryDesc, any_layout, blocked, channels_last, plain
from .primitive import PostOperation, Primitive, first_available

__all__ = ["Problem", "convolution", "convolution_backward", "has_channels_first", "is_narrow"]

_DIRECT = Algorithm.CONVOLUTION_DIRECT
_PRODUCT = "gemm"
"""Part of the names of implementations by im2col and matrix products, which are slower."""
_BLOCK = 16
"""Channels in a block."""

_FEW_CHANNELS = 128
"""Of the data, up to which a strided convolution's gradients keep the forward pass's layouts, and
3x3 convolutions are fast in blocks."""
_POINTWISE = (1, 1)
"""Window of a convolution that computes each place of an image by itself."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """Sizes of a convolution, as oneDNN takes them: groups are an axis of the weights.

    Depthwise convolutions of sequences are described as images of height 1, because oneDNN has
    optimized kernels only for images: these are 10 to 40 times as fast.
    """

    data: Shape
    weight: Shape
    bias: Shape | None
    output: Shape
    window: tuple[Shape, Shape, Shape, Shape]
    """Strides, dilations (0 for none), padding before and after the data."""

    @classmethod
    def of(
        cls, operator: Convolution, inputs: tuple[TensorSpec | None, ...], out: TensorSpec
    ) -> Problem:
        """Return the problem of an operator ``Convolution``."""
        data, weight = inputs[0], inputs[1]
        assert data is not None
        assert weight is not None
        window, groups = operator.window, operator.num_group
        shape = weight.shape
        if groups > 1:
            shape = (groups, shape[0] // groups, *shape[1:])
        behind = tuple(
            (count - 1) * stride + span - size - pad
            for count, stride, span, size, pad in zip(
                out.shape[2:], window.stride, window.spans, data.shape[2:], window.pad, strict=True
            )
        )
        dilation = tuple(dilate - 1 for dilate in window.dilate)
        problem = cls(
            data=data.shape,
            weight=shape,
            bias=None if operator.no_bias else (operator.num_filter,),
            output=out.shape,
            window=(window.stride, dilation, window.pad, behind),
        )
        is_depthwise = problem.has_groups and shape[1:3] == (1, 1)
        return problem._with_height() if is_depthwise and len(data.shape) == 3 else problem

    def _with_height(self) -> Problem:
        """Return the problem of sequences as one of images of height 1."""
        stride, dilation, before, behind = self.window
        return Problem(
            data=(*self.data[:-1], 1, self.data[-1]),
            weight=(*self.weight[:-1], 1, self.weight[-1]),
            bias=self.bias,
            output=(*self.output[:-1], 1, self.output[-1]),
            window=((1, *stride), (0, *dilation), (0, *before), (0, *behind)),
        )

    @property
    def has_groups(self) -> bool:
        """Whether each output channel depends on only some of the data's channels."""
        return len(self.weight) > len(self.data)

    def layouts(
        self, kind: DataType = DataType.FLOAT32, *, is_train: bool
    ) -> tuple[tuple[MemoryDesc, MemoryDesc], ...]:
        """Return layouts of data and output to try, best first: oneDNN's choice, channels last."""
        free = (any_layout(self.data, kind), any_layout(self.output, kind))
        last = (channels_last(self.data, kind), channels_last(self.output, kind))
        is_last = self.has_ragged_groups or (is_train and self.pads)
        return (last, free) if is_last else (free, last)

    @property
    def has_ragged_groups(self) -> bool:
        """Whether the channels of a group do not fill whole blocks. Channels-last is then up to 5
        times as fast as oneDNN's choice, and avoids reorders next to depthwise convolutions."""
        if not self.has_groups:
            return False
        channels = self.weight[1:3]
        return max(channels) >= _BLOCK and any(count % _BLOCK for count in channels)

    @property
    def pads(self) -> bool:
        """Whether channels-last is faster in training.

        oneDNN prefers blocks of channels and pads the last block. The work wasted on padding in
        three convolutions (forward, data, weights) costs more than the reorders that channels-last
        needs: LeNet trains a fifth faster this way.
        """
        channels = (self.data[1], self.output[1])
        is_ragged = min(channels) >= _BLOCK and any(count % _BLOCK for count in channels)
        return is_ragged and math.prod(self.weight[2:]) > 1 and not self.has_groups

    @property
    def _is_fast_in_blocks(self) -> bool:
        """Whether blocks of channels are about as fast as oneDNN's choice of layouts.

        3x3 convolutions of many channels take up to 1.4 times as long in blocks, so that they are
        worth reordering their data.
        """
        if len(self.data) != len(_POINTWISE) + 2 or self.has_groups or self.data[1] % _BLOCK:
            return False
        return self.weight[2:] == _POINTWISE or self.data[1] <= _FEW_CHANNELS

    def forward(
        self,
        request: KernelRequest[object],
        post: tuple[PostOperation, ...] = (),
        *,
        with_bias: bool = False,
    ) -> Primitive:
        """Return the forward primitive in the best layouts."""
        kind = multiplied_type(request)

        def primitive(descs: tuple[MemoryDesc, MemoryDesc]) -> Primitive:
            data, output = descs
            return Primitive.of(
                "convolution_forward",
                forward_propagation(request),
                _DIRECT,
                data,
                any_layout(self.weight, kind),
                plain((self.output[1],)) if with_bias or self.bias else None,
                output,
                *self.window,
                post=post,
            )

        if request.prefers_blocks and self._is_fast_in_blocks and kind == DataType.FLOAT32:
            with contextlib.suppress(KernelUnavailable):
                return primitive((blocked(self.data), blocked(self.output)))
        first, second = self.layouts(kind, is_train=request.is_train)
        found = first_available(primitive, (first, second))
        if self.pads and _PRODUCT in found.implementation:
            return primitive(second)
        return found


def convolution(request: KernelRequest[Convolution]) -> Kernel | None:
    """Prepare the forward pass."""
    if not are_float32(request) or not has_channels_first(request.operator):
        return None
    out = request.outputs[0]
    assert out is not None
    simple = full_width_convolution(request, request.operator)
    if simple is not None:
        return simple
    problem = Problem.of(request.operator, request.inputs, out)
    operands = {Argument.SRC: input_(0), Argument.WEIGHTS: input_(1), Argument.DST: output()}
    if problem.bias:
        operands[Argument.BIAS] = input_(2)
    return PrimitiveKernel("convolution", request, (problem.forward(request), operands))


def convolution_backward(request: KernelRequest[Convolution]) -> Kernel | None:
    """Prepare the gradients that are wanted: of the data, of weight and bias."""
    out = request.outputs[0]
    if not are_float32(request) or not has_channels_first(request.operator) or out is None:
        return None
    wants_data, wants_weight, *wants_bias = (grad is not None for grad in request.in_grads)
    if any(wants_bias) and not wants_weight:  # one primitive computes both
        return None
    problem = Problem.of(request.operator, request.inputs, out)
    # In the layouts of training, in which the gradients are computed whatever the plan's mode is.
    hint = problem.forward(dataclasses.replace(request, is_train=True))
    wanted = _Wanted(problem, hint, wants_data, wants_weight, any(wants_bias))
    return PrimitiveKernel("convolution_backward", request, *wanted.launches())


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """The gradients wanted of a convolution.

    Attributes:
        problem: the convolution.
        hint: its forward primitive.
        data, weight, bias: whether their gradients are wanted.
    """

    problem: Problem
    hint: Primitive
    data: bool
    weight: bool
    bias: bool

    def launches(self) -> Launches:
        """Return the primitives in the best layouts, with their operands.

        For some convolutions oneDNN has fast kernels in one layout only; its fallback may be a
        separate matrix product for each group.
        """
        problem = self.problem
        first, second = problem.layouts(is_train=True)
        found = first_available(self._launches, (first, second))
        if (problem.has_groups or problem.pads) and not _are_swift(found):
            with contextlib.suppress(KernelUnavailable):
                other = self._launches(second)
                return other if _are_swift(other) else found
        return found

    def _launches(self, descs: tuple[MemoryDesc, MemoryDesc]) -> Launches:
        launches: Launches = []
        data, grad = descs
        if self.data:
            primitive = self._data_primitive(data, grad)
            operands = {
                Argument.DIFF_SRC: in_grad(0),
                Argument.WEIGHTS: input_(1),
                Argument.DIFF_DST: out_grad(),
            }
            launches.append((primitive, operands))
            # Both primitives read it, so they must agree on its layout.
            grad = primitive.desc(Argument.DIFF_DST)
        if self.weight:
            primitive = self._weight_primitive(data, grad)
            operands = {
                Argument.SRC: input_(0),
                Argument.DIFF_WEIGHTS: in_grad(1),
                Argument.DIFF_DST: out_grad(),
            }
            if self.bias:
                operands[Argument.DIFF_BIAS] = in_grad(2)
            launches.append((primitive, operands))
        return launches

    def _data_primitive(self, data: MemoryDesc, grad: MemoryDesc) -> Primitive:
        """Return the primitive for the data's gradient, in the forward pass's layouts if that is
        faster overall.

        By default oneDNN chooses other layouts if strides are above one. With few channels the
        gain is smaller than the cost of the reorders before and after.
        """
        problem, hint = self.problem, self.hint

        def primitive(data: MemoryDesc, grad: MemoryDesc) -> Primitive:
            weight = any_layout(problem.weight)
            return Primitive.of(
                "convolution_backward_data", _DIRECT, data, weight, grad, *problem.window, hint
            )

        if self._is_swift_plain:
            return primitive(plain(problem.data), plain(problem.output))
        if data == any_layout(problem.data) and problem.data[1] <= _FEW_CHANNELS:
            with contextlib.suppress(KernelUnavailable):
                found = primitive(hint.desc(Argument.SRC), hint.desc(Argument.DST))
                if found.implementation.startswith("jit"):
                    return found
        return primitive(data, grad)

    @property
    def _is_swift_plain(self) -> bool:
        """Whether the data's gradient is computed in plain layouts. The weights' gradient then is,
        too, and with small windows loses more than is gained."""
        problem = self.problem
        is_swift = not self.weight or math.prod(problem.weight[2:]) >= _BLOCK
        return is_swift and is_narrow(problem.data, 2 if problem.has_groups else 1)

    def _weight_primitive(self, data: MemoryDesc, grad: MemoryDesc) -> Primitive:
        problem = self.problem
        return Primitive.of(
            "convolution_backward_weights",
            _DIRECT,
            data,
            any_layout(problem.weight),
            plain((problem.output[1],)) if self.bias else None,
            grad,
            *problem.window,
            self.hint,
        )


def is_narrow(data: Shape, groups: int) -> bool:
    """Return whether images have so few channels that a block of them would be mostly padding; the
    gradient of such data takes a third of the time in plain layouts."""
    return len(data) == 4 and groups == 1 and data[1] <= _BLOCK // 4


def _are_swift(launches: Launches) -> bool:
    """Return whether no primitive is the slow one by matrix products."""
    return not any(_PRODUCT in primitive.implementation for primitive, _ in launches)


def has_channels_first(operator: HasLayout) -> bool:
    """Return whether the axes of an operator ``Convolution`` are those of oneDNN."""
    return operator.layout in (None, "NCW", "NCHW", "NCDHW")
