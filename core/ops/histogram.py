"""Histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..errors import AttributeValueError, ShapeError
from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["Histogram"]

_INT64 = np.dtype("int64")


@register("_histogram")
class Histogram(Operator):
    """Counts (bins,) of int64, and edges (bins + 1,), which are given or equally spaced.

    The last bin includes its upper edge.
    """

    all_inputs: ClassVar[tuple[str, ...]] = ("data", "bins")

    bin_cnt: int | None = attribute(
        None, minimum=1, doc="number of bins; None if the edges are given"
    )
    range: tuple[float, ...] | None = attribute(
        None, doc="first and last edge, together with bin_cnt"
    )

    def __post_init__(self) -> None:
        if (self.bin_cnt is None) != (self.range is None):
            raise AttributeValueError(
                f"bin_cnt is {self.bin_cnt} and range {self.range}; give both, or neither and bins"
            )
        if self.range is not None and (len(self.range) != 2 or self.range[0] >= self.range[1]):
            raise AttributeValueError(f"range is {self.range}; expected the smaller edge first")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "bins") if self.bin_cnt is None else ("data",)

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        edges = inputs[1] if self.bin_cnt is None else (self.bin_cnt + 1,)
        edges = self.expect("output1", outputs[1], edges)
        if edges is None or edges == (0,):
            return inputs, [outputs[0], edges]
        if len(edges) != 1 or edges[0] < 2:
            raise ShapeError(f"bins has shape {edges}; expected at least two edges")
        counts = self.expect("output0", outputs[0], (edges[0] - 1,))
        return [inputs[0], *[edges] * (len(inputs) - 1)], [counts, edges]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = outputs[1]
        for name, dtype in zip(self.input_names(), inputs, strict=True):
            common = self.expect_dtype(name, dtype, common)
        return [common] * len(inputs), [self.expect_dtype("output0", outputs[0], _INT64), common]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data = inputs[0].reshape(-1)
        if self.bin_cnt is None:
            counts, edges = run.xp.histogram(data, bins=inputs[1])
        else:
            counts, edges = run.xp.histogram(data, bins=self.bin_cnt, range=self.range)
        run.xp.copyto(outputs[0], counts, casting="unsafe")
        run.xp.copyto(outputs[1], edges, casting="unsafe")
