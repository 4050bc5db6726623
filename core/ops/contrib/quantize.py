"""Real numbers as whole numbers of one byte, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.ops.attributes import attribute
from core.ops.operator import Operator, Reads, Run
from core.ops.registry import register
from core.types import Array, DType, Shape

__all__ = ["Dequantize", "Quantize"]

_FLOAT32 = np.dtype("float32")
_LARGEST = {"int8": 127, "uint8": 255}
"""The largest whole number that is used; with int8 the smallest is -127, with uint8 0."""


class _Quantization(Operator):
    """Base: data and the range of real numbers that it spans."""

    def input_names(self) -> tuple[str, ...]:
        return ("data", "min_range", "max_range")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], outputs[0])
        low = self.expect("min_range", inputs[1], (1,))
        high = self.expect("max_range", inputs[2], (1,))
        return [data, low, high], [data, low, high][: len(outputs)]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()


def _reach(run: Run, low: Array, high: Array) -> Any:
    """Return how far from 0 a range reaches."""
    return run.xp.maximum(run.xp.abs(low), run.xp.abs(high))


@register("_contrib_quantize")
class Quantize(_Quantization):
    """float32 numbers as bytes; what is outside the range becomes its nearest end.

    ``uint8``: ``min_range`` becomes 0 and ``max_range`` 255.
    ``int8``: 0 stays 0, the end that is farther from 0 becomes -127 or 127.

    Outputs: the bytes, and the smallest and the largest number that they stand for.
    """

    out_type: str = attribute("uint8", choices=("int8", "uint8"), doc="type of the bytes")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1", "output2")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        names = self.input_names()
        given = [self.expect_dtype(*pair, _FLOAT32) for pair in zip(names, inputs, strict=True)]
        return given, [np.dtype(self.out_type), _FLOAT32, _FLOAT32]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, (data, low, high) = run.xp, inputs
        largest = _LARGEST[self.out_type]
        if self.out_type == "uint8":
            xp.copyto(outputs[1], low)
            xp.copyto(outputs[2], high)
            whole = xp.floor((data - low) * (largest / (high - low)) + 0.5)
            smallest = 0
        else:
            reach = _reach(run, low, high)
            xp.copyto(outputs[1], -reach)
            xp.copyto(outputs[2], reach)
            whole = xp.sign(data) * xp.floor(xp.abs(data) * (largest / reach) + 0.5)
            smallest = -largest
        xp.clip(whole, smallest, largest, out=whole)
        xp.copyto(outputs[0], whole, casting="unsafe")


@register("_contrib_dequantize")
class Dequantize(_Quantization):
    """Bytes of ``quantize`` as float32 numbers."""

    out_type: str = attribute("float32", choices=("float32",), doc="type of the numbers")

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data, low, high = inputs
        if data is not None and data.name not in _LARGEST:
            self.expect_dtype("data", data, np.dtype("uint8"))
        low = self.expect_dtype("min_range", low, _FLOAT32)
        high = self.expect_dtype("max_range", high, _FLOAT32)
        return [data, low, high], [self.expect_dtype("output", outputs[0], _FLOAT32)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, (data, low, high) = run.xp, inputs
        largest = _LARGEST[data.dtype.name]
        if data.dtype.name == "uint8":
            xp.multiply(data, (high - low) / largest, out=outputs[0])
            outputs[0][...] += low
        else:
            xp.multiply(data, _reach(run, low, high) / largest, out=outputs[0])
