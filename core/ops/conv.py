"""Convolution and its transpose, over 1 to 3 spatial axes."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..capabilities.layers import LayerData
from ..capabilities.quantized import QuantizedForm
from ..errors import AttributeValueError, ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .im2col import Correlation
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import declares_attributes, register
from .summation import add_up
from .window import (
    Window,
    channels_first,
    channels_last,
    check_layout,
    check_window,
    is_channels_last,
)

__all__ = ["Convolution", "ConvolutionAttributes", "ConvolutionV1", "Deconvolution"]

# MXNet's list, which has no NWC.
_LAYOUTS = ("NCW", "NCHW", "NCDHW", "NHWC", "NDHWC")


class _Filtering(Operator, abc.ABC):
    """Base of both operators: attributes, shape inference, bias and layouts.

    Subclasses compute with channels first; arrays with channels last are copied to scratch memory.
    """

    ignored_attributes: ClassVar[frozenset[str]] = frozenset(
        {"cudnn_off", "cudnn_tune", "mkldnn_off", "workspace"}
    )
    all_inputs: ClassVar[tuple[str, ...]] = ("data", "weight", "bias")

    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape
    num_filter: int
    num_group: int
    no_bias: bool
    layout: str | None

    def __post_init__(self) -> None:
        check_window(self.kernel, stride=self.stride, dilate=self.dilate, pad=self.pad)
        check_layout(self.layout, len(self.kernel))
        if self.num_filter % self.num_group:
            raise AttributeValueError(
                f"num_filter is {self.num_filter}; expected a multiple of num_group "
                f"{self.num_group}"
            )

    @functools.cached_property
    def window(self) -> Window:
        """The window as the attributes give it, defaults filled in."""
        axes = len(self.kernel)
        return Window(
            kernel=self.kernel,
            stride=self.stride or (1,) * axes,
            dilate=self.dilate or (1,) * axes,
            pad=self.pad or (0,) * axes,
        )

    def input_names(self) -> tuple[str, ...]:
        return ("data", "weight") if self.no_bias else ("data", "weight", "bias")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if not self.no_bias:
            inputs[2] = self.expect("bias", inputs[2], (self.num_filter,))
        if inputs[0] is None:
            return inputs, outputs
        self._check_rank("data", inputs[0])
        data, weight, output = (
            channels_first(shape, self.layout) for shape in (*inputs[:2], outputs[0])
        )
        assert data is not None
        if data[1] % self.num_group:
            raise ShapeError(
                f"data has {data[1]} channels, which num_group {self.num_group} does not divide"
            )
        if weight is not None:
            self._check_rank("weight", weight)
        weight = self.infer_weight(data, weight)
        data, output = self.infer_sizes(data, output)
        inputs[:2] = channels_last(data, self.layout), channels_last(weight, self.layout)
        return inputs, [channels_last(output, self.layout)]

    def _check_rank(self, what: str, shape: Shape) -> None:
        expected = len(self.kernel) + 2
        if len(shape) != expected:
            raise ShapeError(
                f"{what} has shape {shape}; a kernel of {len(self.kernel)} axes needs {expected} "
                f"dimensions"
            )

    @abc.abstractmethod
    def infer_weight(self, data: Shape, weight: Shape | None) -> Shape | None:
        """Return the weight's shape; channels first, like all shapes below."""

    @abc.abstractmethod
    def infer_sizes(self, data: Shape, output: Shape | None) -> tuple[Shape, Shape]:
        """Return the shapes of data and output, each inferred from the other."""

    # -- arithmetic -------------------------------------------------------------------------

    @abc.abstractmethod
    def filter(self, run: Run, data: Array, weight: Array, out: Array) -> None:
        """Write the output without its bias."""

    @abc.abstractmethod
    def filter_backward(
        self,
        run: Run,
        grad: Array,
        data: Array,
        weight: Array,
        data_grad: Array | None,
        weight_grad: Array | None,
    ) -> None:
        """Write the requested gradients."""

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, weight = (self._to_channels_first(run, array) for array in inputs[:2])
        out = self._target(run, outputs[0])
        self.filter(run, data, weight, out)
        if not self.no_bias:
            out += inputs[2].reshape(-1, *(1 for _ in self.kernel))
        self._write_back(run, out, outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad, data, weight = (
            self._to_channels_first(run, array) for array in (out_grads[0], *inputs[:2])
        )
        data_grad, weight_grad = (self._target(run, array) for array in in_grads[:2])
        self.filter_backward(run, grad, data, weight, data_grad, weight_grad)
        self._write_back(run, data_grad, in_grads[0])
        self._write_back(run, weight_grad, in_grads[1])
        if not self.no_bias and in_grads[2] is not None:
            add_up(run, grad, (0, *range(2, grad.ndim)), in_grads[2])

    def _to_channels_first(self, run: Run, array: Array) -> Array:
        """Return an array with channels first: itself, or a copy in scratch memory."""
        if not is_channels_last(self.layout):
            return array
        first = self._target(run, array)
        run.xp.copyto(first, run.xp.moveaxis(array, -1, 1))
        return first

    def _target(self, run: Run, array: Array | None) -> Any:
        """Return where to compute an array with channels first: itself, or scratch memory."""
        if array is None or not is_channels_last(self.layout):
            return array
        shape = channels_first(array.shape, self.layout)
        assert shape is not None
        return run.scratch(shape, array.dtype)

    def _write_back(self, run: Run, first: Array | None, array: Array | None) -> None:
        if first is not array:
            run.xp.copyto(array, run.xp.moveaxis(first, 1, -1))


@declares_attributes
class ConvolutionAttributes(Operator):
    """Base: the attributes of ``Convolution``, floating-point and quantized."""

    kernel: Shape = attribute(minimum=1, doc="size of the window along each spatial axis")
    stride: Shape = attribute(
        (), minimum=1, doc="steps of the window along each axis; 1 by default"
    )
    dilate: Shape = attribute(
        (),
        minimum=1,
        doc="distances between the window's elements along each axis; 1 by default",
    )
    pad: Shape = attribute(
        (), minimum=0, doc="elements of padding on both sides of each axis; 0 by default"
    )
    num_filter: int = attribute(minimum=1, doc="number of output channels")
    num_group: int = attribute(
        1, minimum=1, doc="number of groups of channels that are filtered separately"
    )
    no_bias: bool = attribute(False, doc="whether there is no bias")
    layout: str | None = attribute(
        None, choices=_LAYOUTS, doc="order of the axes; channels first by default"
    )


@register("Convolution", "_npx_convolution")
@implements(kinds.CONVOLUTION)
class Convolution(ConvolutionAttributes, _Filtering):
    """Correlate with ``num_filter`` kernels.

    In the layout NCHW (likewise for 1 and 3 axes) ``data`` is (batch, channels, height, width),
    ``weight`` (num_filter, channels / num_group, *kernel), ``bias`` (num_filter,) and the output
    (batch, num_filter, ...) with ``(size + 2·pad - (dilate·(kernel-1) + 1)) // stride + 1``
    elements along each spatial axis. In NHWC data, weight and output have their channels last.
    """

    quantized_form: ClassVar[QuantizedForm | None] = QuantizedForm(
        "_contrib_quantized_conv", is_layer=True
    )
    names_outputs: ClassVar[bool] = True

    is_costly: ClassVar[bool] = True

    def data_from_weight(self, weight: Shape) -> LayerData | None:
        if is_channels_last(self.layout) or len(weight) < 3:
            return None
        return LayerData(weight[1] * self.num_group, len(weight) - 2)

    def infer_weight(self, data: Shape, weight: Shape | None) -> Shape | None:
        channels = data[1] // self.num_group
        if weight is not None and channels and weight[1] not in (0, channels):
            groups = f" in {self.num_group} groups" if self.num_group > 1 else ""
            raise ShapeError(
                f"weight has {weight[1]} input channels, data has {data[1]}{groups}; "
                f"set num_group or fix data_shapes"
            )
        return self.expect("weight", weight, (self.num_filter, channels, *self.kernel))

    def infer_sizes(self, data: Shape, output: Shape | None) -> tuple[Shape, Shape]:
        window = self.window
        for axis, size in enumerate(data[2:]):
            padded, span = size + 2 * window.pad[axis], window.spans[axis]
            if size and padded < span:
                raise ShapeError(
                    f"data has {size} elements along spatial axis {axis}, with padding {padded}; "
                    f"the kernel spans {span}"
                )
        counts = zip(data[2:], window.counts(data[2:]), strict=True)
        expected = (data[0], self.num_filter, *(n if size else 0 for size, n in counts))
        completed = self.expect("output", output, expected)
        # Only with stride 1 does the output's size determine the data's.
        sizes = tuple(
            n - 1 + span - 2 * pad if n and stride == 1 else 0
            for n, span, pad, stride in zip(
                completed[2:], window.spans, window.pad, window.stride, strict=True
            )
        )
        merged = self.expect("data", data, (completed[0], 0, *sizes))
        return merged, completed

    def filter(self, run: Run, data: Array, weight: Array, out: Array) -> None:
        correlation = self._correlation(run, data, out)
        correlation.correlate(data, weight, out)

    def filter_backward(
        self,
        run: Run,
        grad: Array,
        data: Array,
        weight: Array,
        data_grad: Array | None,
        weight_grad: Array | None,
    ) -> None:
        correlation = self._correlation(run, data, grad)
        if weight_grad is not None:
            correlation.weight_gradient(data, grad, weight_grad)
        if data_grad is not None:
            correlation.image_gradient(grad, weight, data_grad)

    def _correlation(self, run: Run, data: Array, out: Array) -> Correlation:
        return Correlation(run, self.window, self.num_group, data.shape, out.shape, out.dtype)


@register("Convolution_v1")
class ConvolutionV1(Convolution):
    """``Convolution`` under its name in old files; MXNet keeps both operators."""

    quantized_form = None  # MXNet's quantization leaves it in float32.


@register("Deconvolution", "_npx_deconvolution")
@implements(kinds.DECONVOLUTION)
class Deconvolution(_Filtering):
    """Transposed convolution: the gradient of a convolution with respect to its data.

    ``weight`` is (channels, num_filter / num_group, *kernel). Along each spatial axis the output
    has ``stride·(size-1) + dilate·(kernel-1) + 1 - 2·pad + adj`` elements. ``target_shape`` is the
    output's spatial shape; where given, ``pad`` and ``adj`` follow from it.
    """

    names_outputs: ClassVar[bool] = True

    all_inputs = ("data", "weight", "bias")

    kernel: Shape = attribute(minimum=1, doc="size of the window along each spatial axis")
    stride: Shape = attribute(
        (), minimum=1, doc="steps of the window along each axis; 1 by default"
    )
    dilate: Shape = attribute(
        (),
        minimum=1,
        doc="distances between the window's elements along each axis; 1 by default",
    )
    pad: Shape = attribute(
        (), minimum=0, doc="elements of padding on both sides of each axis; 0 by default"
    )
    adj: Shape = attribute(
        (), minimum=0, doc="elements added to the output's end along each axis; 0 by default"
    )
    target_shape: Shape = attribute(
        (), minimum=0, doc="the output's spatial shape, which decides pad and adj"
    )
    num_filter: int = attribute(minimum=1, doc="number of output channels")
    num_group: int = attribute(
        1, minimum=1, doc="number of groups of channels that are filtered separately"
    )
    no_bias: bool = attribute(True, doc="whether there is no bias")
    layout: str | None = attribute(
        None, choices=_LAYOUTS, doc="order of the axes; channels first by default"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window(self.kernel, adj=self.adj, target_shape=self.target_shape)
        if any(self.target_shape):
            if not all(self.target_shape):
                raise AttributeValueError(
                    f"target_shape is {self.target_shape}; expected a size along every axis"
                )
        elif any(a >= s for a, s in zip(self.adj, self.window.stride, strict=False)):
            raise AttributeValueError(
                f"adj is {self.adj}; expected less than stride {self.window.stride}"
            )

    def infer_weight(self, data: Shape, weight: Shape | None) -> Shape | None:
        if weight is not None and data[1] and weight[0] not in (0, data[1]):
            raise ShapeError(
                f"weight has {weight[0]} input channels, data has {data[1]}; fix data_shapes"
            )
        filters = self.num_filter // self.num_group
        return self.expect("weight", weight, (data[1], filters, *self.kernel))

    def infer_sizes(self, data: Shape, output: Shape | None) -> tuple[Shape, Shape]:
        expected = (data[0], self.num_filter, *self._output_sizes(data[2:]))
        completed = self.expect("output", output, expected)
        return (completed[0], *data[1:]), completed

    def _output_sizes(self, sizes: Shape) -> Shape:
        largest = tuple(
            stride * (size - 1) + span if size else 0
            for size, stride, span in zip(sizes, self.window.stride, self.window.spans, strict=True)
        )
        if any(self.target_shape):
            for full, target in zip(largest, self.target_shape, strict=True):
                if full and full < target:
                    raise ShapeError(
                        f"target_shape is {self.target_shape}; with data of {sizes} it can be "
                        f"{largest} at most"
                    )
            return self.target_shape
        adj = self.adj or (0,) * len(sizes)
        outputs = tuple(
            full - 2 * pad + extra if full else 0
            for full, pad, extra in zip(largest, self.window.pad, adj, strict=True)
        )
        if any(full and out < 1 for full, out in zip(largest, outputs, strict=True)):
            raise ShapeError(
                f"pad {self.pad} leaves no output: data of {sizes} gives {largest} without padding"
            )
        return outputs

    def window_for(self, sizes: Shape) -> Window:
        """Return the window for data of these spatial sizes: its padding leads to
        ``target_shape``."""
        if not any(self.target_shape):
            return self.window
        window = self.window
        # As in MXNet, the start loses the larger part of an odd excess: pad rounds up, and adj,
        # which the output's shape implies, gives one element back at the end.
        pad = tuple(
            (stride * (size - 1) + span - target + 1) // 2
            for size, stride, span, target in zip(
                sizes, window.stride, window.spans, self.target_shape, strict=True
            )
        )
        return Window(window.kernel, window.stride, window.dilate, pad)

    def filter(self, run: Run, data: Array, weight: Array, out: Array) -> None:
        self._correlation(run, data, out).image_gradient(data, weight, out)

    def filter_backward(
        self,
        run: Run,
        grad: Array,
        data: Array,
        weight: Array,
        data_grad: Array | None,
        weight_grad: Array | None,
    ) -> None:
        correlation = self._correlation(run, data, grad)
        if weight_grad is not None:
            correlation.weight_gradient(grad, data, weight_grad)
        if data_grad is not None:
            correlation.correlate(grad, weight, data_grad)

    def _correlation(self, run: Run, data: Array, out: Array) -> Correlation:
        window = self.window_for(data.shape[2:])
        return Correlation(run, window, self.num_group, out.shape, data.shape, out.dtype)
