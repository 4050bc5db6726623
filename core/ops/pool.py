"""Pooling over 1 to 3 spatial axes.

Windows are rectangular, so maxima and sums are computed one axis at a time. This takes fewer passes
than a window has positions, and each pass runs over whole rows.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..capabilities.quantized import QuantizedForm
from ..errors import AttributeValueError, ShapeError, TypeInferenceError
from ..types import Array, DType, Shape, is_floating, lowest
from .attributes import attribute
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import declares_attributes, register
from .summation import add_up
from .window import check_layout, check_window, is_channels_last

__all__ = ["Pooling", "PoolingAttributes"]

_LAYOUTS = ("NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC")


@dataclasses.dataclass(frozen=True, slots=True)
class _Interval:
    """The windows along one axis of the array: ``count`` of them over ``size`` elements."""

    axis: int
    size: int
    count: int
    kernel: int
    stride: int
    pad: int

    @property
    def is_overlapping(self) -> bool:
        """True if an element may lie in two windows."""
        return self.kernel > self.stride

    def slices(self) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Yield (output slices, input slices) for every position in the window, without padding."""
        before = (slice(None),) * self.axis
        for offset in range(-self.pad, self.kernel - self.pad):
            # The windows, from the first to the last, for which i * stride + offset is an element;
            # -(offset // stride) is the ceiling of -offset / stride.
            first = max(0, -(offset // self.stride))
            last = min(self.count - 1, (self.size - 1 - offset) // self.stride)
            if first <= last:
                start = first * self.stride + offset
                stop = last * self.stride + offset + 1
                yield (
                    (*before, slice(first, last + 1)),
                    (*before, slice(start, stop, self.stride)),
                )

    def element_counts(self, with_padding: bool) -> Iterator[tuple[tuple[slice, ...], int]]:
        """Yield (output slices, elements in the window) for runs of windows of equal size."""
        before = (slice(None),) * self.axis
        low, high = (-self.pad, self.size + self.pad) if with_padding else (0, self.size)
        starts = [i * self.stride - self.pad for i in range(self.count)]
        counts = [max(0, min(s + self.kernel, high) - max(s, low)) for s in starts]
        first = 0
        for elements, run in itertools.groupby(counts):
            last = first + len(list(run))
            yield (*before, slice(first, last)), elements
            first = last


@declares_attributes
class PoolingAttributes(Operator):
    """Base: the attributes of ``Pooling`` and its quantized version."""

    kernel: Shape = attribute((), minimum=1, doc="size of the window along each spatial axis")
    pool_type: str = attribute(
        "max", choices=("max", "avg", "sum", "lp"), doc="the function applied to each window"
    )
    global_pool: bool = attribute(False, doc="whether one window covers all of the data")
    pooling_convention: str = attribute(
        "valid",
        choices=("valid", "full", "same"),
        doc="rounding of the output size: down (valid), up (full), or size / stride up (same)",
    )
    stride: Shape = attribute(
        (), minimum=1, doc="steps of the window along each axis; 1 by default"
    )
    pad: Shape = attribute(
        (), minimum=0, doc="elements of padding on both sides of each axis; 0 by default"
    )
    p_value: int | None = attribute(None, minimum=1, maximum=3, doc="order of the norm, for lp")
    count_include_pad: bool | None = attribute(
        None, doc="whether averages count padding; the default is True"
    )
    layout: str | None = attribute(
        None, choices=_LAYOUTS, doc="order of the axes; channels first by default"
    )


@register("Pooling", "_npx_pooling")
@implements(kinds.POOLING)
class Pooling(PoolingAttributes):
    """Take the maximum, mean, sum or Lp norm of windows of every channel.

    ``data`` is (batch, channels, *spatial), or (batch, *spatial, channels) in the layouts NWC,
    NHWC and NDHWC. The number of windows along an axis is, of ``size + 2·pad - kernel`` divided by
    ``stride``, the floor plus 1 (``valid``) or the ceiling plus 1 (``full``); ``same``, for one
    axis without padding, has ``ceil(size / stride)``. Windows are clipped to the padded data, and
    ``count_include_pad`` says whether the mean counts padding. With ``global_pool`` a single window
    covers everything; kernel, stride and pad are ignored.

    As in MXNet, the Lp norm is the ``p_value``-th root of the sum of powers, without absolute
    values. If several elements are the maximum, the gradient goes to the first. NaN is ignored.
    """

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm("_contrib_quantized_pooling")
    names_outputs: ClassVar[bool] = True

    monitors_data: ClassVar[bool] = True

    ignored_attributes: ClassVar[frozenset[str]] = frozenset({"cudnn_off"})

    def on_bytes(self) -> QuantizedForm | None:
        return self.quantized_form if self.pool_type in ("max", "avg") else None

    def __post_init__(self) -> None:
        if self.pool_type == "lp" and self.p_value is None:
            raise AttributeValueError("p_value is missing; pool_type lp needs 1, 2 or 3")
        if self.global_pool:
            return
        # Zeros count as no padding, however many there are.
        pad = self.pad if any(self.pad) else ()
        check_window(self.kernel, stride=self.stride, pad=pad)
        check_layout(self.layout, len(self.kernel))
        if self.pooling_convention == "same" and (pad or len(self.kernel) != 1):
            raise AttributeValueError(
                f"pooling_convention is 'same' with kernel {self.kernel} and pad {self.pad}; "
                f"expected one axis and no padding"
            )

    def stored_outputs(self) -> int:
        """MXNet has a hidden output for maximum pooling: oneDNN's workspace."""
        has_workspace = (
            self.pool_type == "max" and self.kernel and not is_channels_last(self.layout)
        )
        return 2 if has_workspace else 1

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if self.global_pool:
            if not 3 <= len(data) <= 5:
                raise ShapeError(f"data has shape {data}; expected 3 to 5 dimensions")
        elif len(data) != len(self.kernel) + 2:
            raise ShapeError(
                f"data has shape {data}; kernel {self.kernel} needs {len(self.kernel) + 2} "
                f"dimensions"
            )
        expected = list(data)
        for interval in self.intervals(data):
            expected[interval.axis] = interval.count
        output = self.expect("output", outputs[0], tuple(expected))
        channel = -1 if is_channels_last(self.layout) else 1
        known = [0] * len(data)
        known[0], known[channel] = output[0], output[channel]
        return [self.expect("data", data, tuple(known))], [output]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        inputs, outputs = super().infer_type(inputs, outputs)
        if inputs[0] is not None and not is_floating(inputs[0]):
            raise TypeInferenceError(f"data has dtype {inputs[0]}; expected a floating point type")
        return inputs, outputs

    def intervals(self, data: Shape) -> list[_Interval]:
        """Return the windows along each spatial axis, for data of this shape."""
        first = 1 if is_channels_last(self.layout) else 2
        spatial = data[first : first + len(data) - 2]
        if self.global_pool:
            return [_Interval(first + i, n, 1, n, 1, 0) for i, n in enumerate(spatial)]
        stride = self.stride or (1,) * len(spatial)
        pad = self.pad if any(self.pad) else (0,) * len(spatial)
        return [
            _Interval(
                first + i,
                n,
                self._count(i, n, stride[i], pad[i]),
                self.kernel[i],
                stride[i],
                pad[i],
            )
            for i, n in enumerate(spatial)
        ]

    def _count(self, axis: int, size: int, stride: int, pad: int) -> int:
        if size == 0:
            return 0
        room = size + 2 * pad - self.kernel[axis]
        if room < 0:
            raise ShapeError(
                f"data has {size} elements along spatial axis {axis}, with padding "
                f"{size + 2 * pad}; the kernel spans {self.kernel[axis]}"
            )
        if self.pooling_convention == "same":
            return -(-size // stride)
        return (room // stride if self.pooling_convention == "valid" else -(-room // stride)) + 1

    def backward_reads(self) -> Reads:
        if self.pool_type == "max" or (self.pool_type == "lp" and self.p_value != 1):
            return Reads(inputs=(0,), outputs=(0,))
        return Reads()

    # -- arithmetic -------------------------------------------------------------------------

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, out = run.xp, inputs[0], outputs[0]
        intervals = self.intervals(data.shape)
        if self.pool_type == "max":
            self._maxima(run, data, out, intervals)
            return
        if self.pool_type == "lp":
            data = self._powers(run, data, self.p_value or 1)
        self._sums(run, data, out, intervals)
        if self.pool_type == "avg":
            self._divide(out, intervals)
        elif self.pool_type == "lp" and self.p_value == 2:
            xp.sqrt(out, out=out)
        elif self.pool_type == "lp" and self.p_value == 3:
            xp.cbrt(out, out=out)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data_grad = in_grads[0]
        if data_grad is None:
            return
        intervals = self.intervals(data_grad.shape)
        if self.pool_type == "max":
            self._maxima_backward(run, out_grads[0], inputs[0], outputs[0], data_grad, intervals)
            return
        grad = out_grads[0]
        if self.pool_type == "avg":
            grad = _copy(run, grad)
            self._divide(grad, intervals)
        elif self.pool_type == "lp":
            grad = self._root_gradient(run, grad, outputs[0])
        self._sums_backward(run, grad, data_grad, intervals)
        if self.pool_type == "lp" and self.p_value != 1:
            data_grad *= self._powers(run, inputs[0], (self.p_value or 1) - 1)

    # -- maxima: the last axis first, so that the first maximum in row order is found ---------

    def _maxima(self, run: Run, data: Array, out: Array, intervals: list[_Interval]) -> list[Array]:
        """Write the maxima; return the arrays before the reduction of each axis, in order of
        axes."""
        sources = [data]
        for interval in reversed(intervals):
            source = sources[0]
            target = out if interval is intervals[0] else _reduced(run, source, interval)
            target[...] = lowest(target.dtype)
            for outer, inner in interval.slices():
                seen = target[outer]
                run.xp.fmax(seen, source[inner], out=seen)
            sources.insert(0, target)
        return sources[1:]

    def _maxima_backward(
        self,
        run: Run,
        grad: Array,
        data: Array,
        out: Array,
        data_grad: Array,
        intervals: list[_Interval],
    ) -> None:
        # ``forward`` keeps only the final maxima; those along the later axes are found again.
        recomputed = run.scratch(out.shape, out.dtype) if len(intervals) > 1 else out
        sources = [data] if len(intervals) == 1 else self._maxima(run, data, recomputed, intervals)
        for interval, source in zip(intervals, sources, strict=True):
            last = source is data
            target = data_grad if last else run.scratch(source.shape, source.dtype)
            _to_first_maximum(run, grad, source, out, target, interval)
            grad, out = target, source

    # -- sums -------------------------------------------------------------------------------

    def _sums(self, run: Run, data: Array, out: Array, intervals: list[_Interval]) -> None:
        if self.global_pool:
            axes = tuple(interval.axis for interval in intervals)
            add_up(run, data, axes, out)
            return
        for interval in intervals:
            target = out if interval is intervals[-1] else _reduced(run, data, interval)
            target[...] = 0
            for outer, inner in interval.slices():
                seen = target[outer]
                seen += data[inner]
            data = target

    def _sums_backward(
        self, run: Run, grad: Array, data_grad: Array, intervals: list[_Interval]
    ) -> None:
        if self.global_pool:
            run.xp.copyto(data_grad, grad)
            return
        shapes = [
            data_grad.shape[: interval.axis + 1] + grad.shape[interval.axis + 1 :]
            for interval in intervals
        ]
        for interval, shape in zip(intervals, shapes, strict=True):
            last = interval is intervals[-1]
            target = data_grad if last else run.scratch(shape, grad.dtype)
            target[...] = 0
            for outer, inner in interval.slices():
                _add_or_set(run, target[inner], grad[outer], interval)
            grad = target

    def _divide(self, array: Array, intervals: list[_Interval]) -> None:
        """Divide by the number of elements in each window; the mean of an empty window is 0."""
        whole = 1
        for interval in intervals:
            runs = list(interval.element_counts(self.count_include_pad is not False))
            if len(runs) == 1:
                whole *= runs[0][1]
                continue
            for window, elements in runs:
                part = array[window]
                part /= max(1, elements)
        array /= max(1, whole)

    # -- Lp norm ----------------------------------------------------------------------------

    def _powers(self, run: Run, data: Array, exponent: int) -> Array:
        """Return data to the power of 1, 2 or 3; a new array unless the power is 1."""
        if exponent == 1:
            return data
        power = run.scratch(data.shape, data.dtype)
        run.xp.multiply(data, data, out=power)
        if exponent == 3:
            power *= data
        return power

    def _root_gradient(self, run: Run, grad: Array, out: Array) -> Array:
        """Return ``grad / out^(p-1)``, or ``grad`` where the norm is 0."""
        if self.p_value == 1:
            return grad
        divisor = _copy(run, out)
        if self.p_value == 3:
            divisor *= out
        zero = run.scratch(out.shape, "bool")
        run.xp.equal(divisor, 0, out=zero)
        divisor += zero
        run.xp.divide(grad, divisor, out=divisor)
        return divisor


def _reduced(run: Run, array: Array, interval: _Interval) -> Array:
    shape = list(array.shape)
    shape[interval.axis] = interval.count
    return run.scratch(tuple(shape), array.dtype)


def _copy(run: Run, array: Array) -> Array:
    copy = run.scratch(array.shape, array.dtype)
    run.xp.copyto(copy, array)
    return copy


def _to_first_maximum(
    run: Run, grad: Array, source: Array, maxima: Array, target: Array, interval: _Interval
) -> None:
    """Write into ``target`` the gradient of maxima taken from ``source`` along one axis."""
    xp = run.xp
    share = run.scratch(grad.shape, grad.dtype)
    # Bit patterns are multiplied by 0 and 1 instead of numbers: 0 times a gradient of NaN or inf
    # would be NaN.
    bits = f"i{grad.dtype.itemsize}"
    left_bits, share_bits = _copy(run, grad).view(bits), share.view(bits)
    is_maximum = run.scratch(grad.shape, "bool")
    target[...] = 0
    for outer, inner in interval.slices():
        xp.equal(source[inner], maxima[outer], out=is_maximum[outer])
        # Windows whose maximum was not found at an earlier position.
        xp.multiply(left_bits[outer], is_maximum[outer], out=share_bits[outer])
        xp.subtract(left_bits[outer], share_bits[outer], out=left_bits[outer])
        _add_or_set(run, target[inner], share[outer], interval)


def _add_or_set(run: Run, target: Array, share: Array, interval: _Interval) -> None:
    if interval.is_overlapping:
        run.xp.add(target, share, out=target)
    else:
        run.xp.copyto(target, share)
