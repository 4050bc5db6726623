"""Operators on bytes whose output has the range of the input: pooling, joining, lookup and
others."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import ClassVar

from ...capabilities import quantized as kinds
from ...capabilities.kinds import implements
from ...errors import AttributeValueError
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..indexing import Embedding
from ..joining import Concat
from ..operator import Run
from ..pool import Pooling, PoolingAttributes
from ..registry import register
from ..reshape import Flatten
from .base import (
    FLOAT32,
    INT8,
    UINT8,
    Quantized,
    steps_per_unit,
    write_rounded,
)

__all__ = [
    "QuantizedActivation",
    "QuantizedConcat",
    "QuantizedEmbedding",
    "QuantizedFlatten",
    "QuantizedPooling",
]


@register("_contrib_quantized_pooling")
@implements(kinds.POOLING)
class QuantizedPooling(PoolingAttributes, Quantized):
    """``Pooling`` of bytes: maximum and mean.

    Unlike in ``Pooling``, a mean that counts padding is always divided by the size of a whole
    window, even if it reaches beyond the padding.
    """

    ignored_attributes: ClassVar[frozenset[str]] = Pooling.ignored_attributes

    def __post_init__(self) -> None:
        if self.pool_type not in ("max", "avg"):
            raise AttributeValueError(
                f"pool_type is {self.pool_type!r}; bytes are pooled by 'max' or 'avg': leave the "
                "layer out of the quantization (excluded_sym_names)"
            )
        self.layer.__post_init__()

    @functools.cached_property
    def layer(self) -> Pooling:
        """The equivalent pooling of real numbers, or a sum if this class does the division."""
        is_mean = self.pool_type == "avg" and self.count_include_pad is not False
        return Pooling(
            kernel=self.kernel,
            pool_type="sum" if is_mean else self.pool_type,
            global_pool=self.global_pool,
            pooling_convention=self.pooling_convention,
            stride=self.stride,
            pad=self.pad,
            p_value=self.p_value,
            count_include_pad=self.count_include_pad,
            layout=self.layout,
        )

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return self.layer.infer_shape(tensors, outputs)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, out = (run.scratch(array.shape, FLOAT32) for array in (inputs[0], outputs[0]))
        run.xp.copyto(data, inputs[0])
        self.layer.forward(run, [data], [out])
        if self.pool_type == "avg" and self.layer.pool_type == "sum":
            out /= math.prod(one.kernel for one in self.layer.intervals(data.shape))
        write_rounded(run, out, outputs[0])
        self.pass_range(run, inputs, outputs)


@register("_contrib_quantized_flatten")
class QuantizedFlatten(Quantized):
    """``Flatten`` of bytes."""

    names_outputs: ClassVar[bool] = True

    def keeps_features(self) -> bool:
        return True

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return Flatten().infer_shape(tensors, outputs)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0].reshape(outputs[0].shape))
        self.pass_range(run, inputs, outputs)


@register("_contrib_quantized_act")
@implements(kinds.ACTIVATION)
class QuantizedActivation(Quantized):
    """``Activation`` of bytes; only ReLU."""

    act_type: str = attribute(
        choices=("relu", "sigmoid", "tanh", "softrelu", "softsign"), doc="the function"
    )

    def keeps_features(self) -> bool:
        return True

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        if self.act_type != "relu":
            raise AttributeValueError(
                f"act_type is {self.act_type!r}; bytes have 'relu' only: leave the layer "
                "out of the quantization (excluded_sym_names)"
            )
        return super().infer_tensor_dtypes(tensors, output)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.maximum(inputs[0], 0, out=outputs[0])
        self.pass_range(run, inputs, outputs)


@register("_contrib_quantized_concat")
class QuantizedConcat(Quantized):
    """``Concat`` of bytes, which are rescaled to the union of their ranges.

    The output is uint8 if all inputs are.
    """

    variadic: ClassVar[str | None] = "num_args"

    num_args: int = attribute(minimum=1, doc="number of tensors")
    dim: int = attribute(1, doc="the axis along which the tensors are joined")

    @functools.cached_property
    def layer(self) -> Concat:
        """The equivalent operator on real numbers."""
        return Concat(num_args=self.num_args, dim=self.dim)

    def tensor_names(self) -> tuple[str, ...]:
        return self.layer.input_names()

    def range_names(self) -> tuple[str, ...]:
        return tuple(f"{name}_{end}" for name in self.tensor_names() for end in ("min", "max"))

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return self.layer.infer_shape(tensors, outputs)

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        names = self.tensor_names()
        found = [self.expect_bytes(*pair) for pair in zip(names, tensors, strict=True)]
        if INT8 in found:
            output = self.expect_dtype("output", output, INT8)
        elif None not in found:
            output = self.expect_dtype("output", output, UINT8)
        return found, self.expect_bytes("output", output)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, count = run.xp, self.num_args
        tensors, lows, highs = inputs[:count], inputs[count::2], inputs[count + 1 :: 2]
        low, high = functools.reduce(xp.minimum, lows), functools.reduce(xp.maximum, highs)
        xp.copyto(outputs[1], low)
        xp.copyto(outputs[2], high)
        per_unit = steps_per_unit(run, outputs[0].dtype, low, high)
        regions = self.layer.regions(outputs[0], tensors)
        for tensor, first, last, region in zip(tensors, lows, highs, regions, strict=True):
            scaled = run.scratch(tensor.shape, FLOAT32)
            factor = per_unit / steps_per_unit(run, tensor.dtype, first, last)
            xp.multiply(tensor, factor, out=scaled)
            write_rounded(run, scaled, region)


@register("_contrib_quantized_embedding")
class QuantizedEmbedding(Quantized):
    """``Embedding`` with int8 weights."""

    input_dim: int = attribute(minimum=1, doc="number of rows")
    output_dim: int = attribute(minimum=1, doc="length of a row")
    dtype: str = attribute("float32", doc="dtype of the weight before quantization")
    sparse_grad: bool = attribute(False, doc="no effect: the setting of the layer in training")

    @functools.cached_property
    def layer(self) -> Embedding:
        """The equivalent operator on real numbers."""
        return Embedding(input_dim=self.input_dim, output_dim=self.output_dim)

    def tensor_names(self) -> tuple[str, ...]:
        return ("data", "weight")

    def range_names(self) -> tuple[str, ...]:
        return ("min_weight", "max_weight")

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return self.layer.infer_shape(tensors, outputs)

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        weight = self.expect_dtype("weight", tensors[1], INT8)
        return [tensors[0], weight], self.expect_dtype("output", output, INT8)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.layer.forward(run, inputs[:2], outputs[:1])
        self.pass_range(run, inputs, outputs)
