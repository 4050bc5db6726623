"""Choice of the quantization range that loses the least information."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..operator import Operator, Run
from ..registry import register
from .base import FLOAT32

__all__ = ["CalibrateEntropy"]

_SMOOTHING = 1e-4
"""What each empty bin gets; the others give as much, in equal shares."""


@register("_contrib_calibrate_entropy")
class CalibrateEntropy(Operator):
    """The threshold at which clipping a distribution before quantization loses the least
    information.

    For each threshold, the clipped histogram is merged into ``num_quantized_bins`` bins; the loss
    is the Kullback-Leibler divergence between the two. ``hist`` has an odd number of bins, centered
    on 0, and ``hist_edges`` one more. Outputs: the best threshold and its divergence, each (1,).
    """

    names_outputs: ClassVar[bool] = True

    num_quantized_bins: int = attribute(
        255, minimum=1, maximum=2**16, doc="number of bins after quantization"
    )

    def input_names(self) -> tuple[str, ...]:
        return ("hist", "hist_edges")

    def output_names(self) -> tuple[str, ...]:
        return ("threshold", "divergence")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        hist, edges = inputs
        for name, shape in (("hist", hist), ("hist_edges", edges)):
            if shape is not None and len(shape) != 1:
                raise ShapeError(f"{name} has shape {shape}; expected one dimension")
        if hist and hist[0]:
            if hist[0] % 2 == 0 or hist[0] < self.num_quantized_bins:
                raise ShapeError(
                    f"hist has {hist[0]} bins; expected an odd number of at least "
                    f"num_quantized_bins ({self.num_quantized_bins})"
                )
            edges = self.expect("hist_edges", edges, (hist[0] + 1,))
        names = self.output_names()
        ends = [self.expect(*pair, (1,)) for pair in zip(names, outputs, strict=True)]
        return [hist, edges], [*ends]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        names = self.input_names()
        given = [self.expect_dtype(*pair, FLOAT32) for pair in zip(names, inputs, strict=True)]
        return [*given], [FLOAT32, FLOAT32]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        hist, edges = (_on_host(array) for array in inputs)
        counts = hist.astype("float64")
        middle, fewest = len(counts) // 2, self.num_quantized_bins // 2
        found = [
            (_divergence(counts, middle, width, self.num_quantized_bins), width)
            for width in range(fewest, middle + 1)
        ]
        least, width = min(found)
        outputs[0][...] = edges[middle + width + 1]
        outputs[1][...] = least


def _on_host(array: Array) -> Any:
    return array.get() if hasattr(array, "get") else array


def _divergence(counts: Any, middle: int, width: int, bins: int) -> float:
    """Return the divergence if everything further than ``width`` bins from the middle is
    clipped."""
    start, stop = middle - width, middle + width + 1
    # As in MXNet, the first bin counts as clipped, too, but the last one does not.
    inside = counts[start:stop].copy()
    inside[0] = 0
    kept = inside.copy()
    kept[0], kept[-1] = counts[: start + 1].sum(), counts[stop - 1 :].sum()
    merged = len(inside) // bins
    starts = np.arange(bins) * merged
    sums = np.add.reduceat(inside, starts)
    used = np.add.reduceat((inside != 0).astype("float64"), starts)
    means = np.divide(sums, used, out=np.zeros(bins), where=used > 0)
    owner = np.minimum(np.arange(len(inside)) // merged, bins - 1)
    spread = np.where(kept != 0, means[owner], 0.0)
    first, second = _smoothed(kept), _smoothed(spread)
    if first is None or second is None:
        return float("inf")
    first, second = first / first.sum(), second / second.sum()
    return float((first * np.log(first / second)).sum())


def _smoothed(numbers: Any) -> Any:
    """Return a distribution with zeros smoothed away; None if nearly all elements are zero."""
    is_zero = numbers == 0
    zeros = int(is_zero.sum())
    others = numbers.size - zeros
    if not others or _SMOOTHING * zeros >= others:
        return None
    return numbers + np.where(is_zero, _SMOOTHING, -_SMOOTHING * zeros / others)
