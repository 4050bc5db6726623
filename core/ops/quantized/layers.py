"""Convolutions and fully connected layers on bytes, with int32 sums."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...capabilities import quantized as kinds
from ...capabilities.kinds import implements
from ...capabilities.layers import LayerData
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..conv import Convolution, ConvolutionAttributes
from ..dense import FullyConnected
from ..operator import Operator, Run
from ..registry import register
from .base import (
    INT8,
    INT32,
    Quantized,
    product_reach,
    steps_per_unit,
    write_rounded,
)

__all__ = ["QuantizedConvolution", "QuantizedFullyConnected", "write_sums"]

_FLOAT64 = np.dtype("float64")


def write_sums(run: Run, layer: Operator, data: Array, weight: Array, sums: Array) -> None:
    """Write the exact output of a layer without bias for integers, as float64."""
    # Sums of products of bytes are exact in float64, for which there is a fast matrix product; for
    # integers there is none.
    exact = [run.scratch(array.shape, _FLOAT64) for array in (data, weight)]
    for target, source in zip(exact, (data, weight), strict=True):
        run.xp.copyto(target, source)
    layer.forward(run, exact, [sums])


class _Layer(Quantized, abc.ABC):
    """Base: bytes times int8 weights, plus an int8 bias that is rescaled to the sums."""

    has_sums: ClassVar[bool] = True

    all_inputs: ClassVar[tuple[str, ...]] = (
        *("data", "weight", "bias"),
        *(f"{end}_{name}" for name in ("data", "weight", "bias") for end in ("min", "max")),
    )

    no_bias: bool

    @property
    @abc.abstractmethod
    def layer(self) -> Operator:
        """The equivalent layer on real numbers, without a bias."""

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """Length of the bias."""

    @abc.abstractmethod
    def bias_column(self, bias: Array) -> Array:
        """Return a bias in a shape that broadcasts against the sums."""

    def tensor_names(self) -> tuple[str, ...]:
        return ("data", "weight") if self.no_bias else ("data", "weight", "bias")

    def data_from_weight(self, weight: Shape) -> LayerData | None:
        return self.layer.data_from_weight(weight)

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        main, outputs = self.layer.infer_shape(tensors[:2], outputs)
        bias = [self.expect("bias", shape, (self.width,)) for shape in tensors[2:]]
        return [*main, *bias], outputs

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        data = self.expect_bytes("data", tensors[0])
        names = self.tensor_names()[1:]
        rest = [self.expect_dtype(*pair, INT8) for pair in zip(names, tensors[1:], strict=True)]
        return [data, *rest], self.expect_dtype("output", output, INT32)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        count = len(self.tensor_names())
        data, weight, *bias = inputs[:count]
        ranges = inputs[count:]
        sums = run.scratch(outputs[0].shape, _FLOAT64)
        write_sums(run, self.layer, data, weight, sums)
        if bias:
            per_unit = steps_per_unit(run, data.dtype, *ranges[:2])
            per_unit = per_unit * steps_per_unit(run, INT8, *ranges[2:4])
            factor = per_unit / steps_per_unit(run, INT8, *ranges[4:6])
            sums += self.bias_column(run.xp.trunc(bias[0] * factor))
        write_rounded(run, sums, outputs[0])
        furthest = product_reach(run, (data.dtype, INT8), ranges[:4])
        run.xp.copyto(outputs[1], -furthest)
        run.xp.copyto(outputs[2], furthest)


@register("_contrib_quantized_conv")
@implements(kinds.SUMMING_CONVOLUTION)
class QuantizedConvolution(ConvolutionAttributes, _Layer):
    """``Convolution`` of bytes with int8 weights: int32 sums and their possible range.

    MXNet on CPUs adds the bias without regard to its range, and takes data of uint8 for int8 in
    the range of the sums, so that all that follows is twice too large. Here the bias is rescaled to
    the sums, as in MXNet on GPUs, and the range is right.
    """

    ignored_attributes: ClassVar[frozenset[str]] = Convolution.ignored_attributes

    def __post_init__(self) -> None:
        self.layer.__post_init__()

    @functools.cached_property
    def layer(self) -> Convolution:
        return Convolution(
            kernel=self.kernel,
            stride=self.stride,
            dilate=self.dilate,
            pad=self.pad,
            num_filter=self.num_filter,
            num_group=self.num_group,
            no_bias=True,
            layout=self.layout,
        )

    @property
    def width(self) -> int:
        return self.num_filter

    def bias_column(self, bias: Array) -> Array:
        if self.layout is not None and self.layout.endswith("C"):
            return bias
        return bias.reshape(-1, *(1 for _ in self.kernel))


@register("_contrib_quantized_fully_connected")
@implements(kinds.SUMMING_FULLY_CONNECTED)
class QuantizedFullyConnected(_Layer):
    """``FullyConnected`` of bytes with int8 weights: int32 sums and their possible range."""

    num_hidden: int = attribute(minimum=1, doc="number of output features")
    no_bias: bool = attribute(False, doc="whether there is no bias")
    flatten: bool = attribute(
        True,
        doc="whether all axes but the first are joined; else only the last axis holds features",
    )

    @functools.cached_property
    def layer(self) -> FullyConnected:
        return FullyConnected(num_hidden=self.num_hidden, no_bias=True, flatten=self.flatten)

    @property
    def width(self) -> int:
        return self.num_hidden

    def bias_column(self, bias: Array) -> Array:
        return bias
