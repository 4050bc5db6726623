"""Calibration: determines the ranges of tensors by running the network on data."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...ndarray import NDArray
from ...ndarray import contrib as nd_contrib
from ...ndarray.creation import array

__all__ = [
    "Collector",
    "HistogramCollector",
    "MinMaxCollector",
    "Ranges",
    "combine_histogram",
    "optimal_threshold",
]

Ranges = dict[str, tuple[float, float]]
Histogram = tuple[Any, Any, Any, Any, Any]
"""Counts, bin edges, minimum, maximum, and the largest magnitude that the edges cover."""

_BINS = 8001  # MXNet's number; an odd one, so that zero is in the middle of a bin
_QUANTIZED_BINS = 255  # the levels of int8 from -127 to 127


class Collector(ABC):
    """Observes tensors by name (``Executor.set_monitor_callback``)."""

    def __init__(
        self, include_layer: Collection[str], logger: logging.Logger | None = None
    ) -> None:
        self.include_layer = include_layer
        self.logger = logger

    def collect(self, name: str, arr: NDArray) -> None:
        """Observe a tensor if it is one of those to be calibrated."""
        if name in self.include_layer:
            self.observe(name, arr.asnumpy())

    @abstractmethod
    def observe(self, name: str, numbers: Any) -> None:
        """Update the statistics with a tensor."""

    @abstractmethod
    def ranges(self, quantized_dtype: str) -> Ranges:
        """Return the calibrated ranges."""


class MinMaxCollector(Collector):
    """Records the minimum and maximum of each tensor.

    Attributes:
        min_max_dict: (minimum, maximum) by name.
    """

    def __init__(
        self, include_layer: Collection[str], logger: logging.Logger | None = None
    ) -> None:
        super().__init__(include_layer, logger)
        self.min_max_dict: Ranges = {}

    def observe(self, name: str, numbers: Any) -> None:
        low, high = float(numbers.min()), float(numbers.max())
        known = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = min(known[0], low), max(known[1], high)
        if self.logger is not None:
            self.logger.debug("layer %s: from %f to %f", name, low, high)

    def ranges(self, quantized_dtype: str) -> Ranges:
        return dict(self.min_max_dict)


class HistogramCollector(Collector):
    """Records a histogram of each tensor.

    Attributes:
        hist_dict: histograms by name.
    """

    def __init__(
        self,
        include_layer: Collection[str],
        logger: logging.Logger | None = None,
        num_bins: int = _BINS,
    ) -> None:
        super().__init__(include_layer, logger)
        self.hist_dict: dict[str, Histogram] = {}
        self.num_bins = num_bins

    def observe(self, name: str, numbers: Any) -> None:
        low, high = numbers.min(), numbers.max()
        reach = max(abs(low), abs(high))
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(
                self.hist_dict[name], numbers, low, high, reach
            )
            return
        counts, edges = np.histogram(numbers, bins=self.num_bins, range=(-reach, reach))
        self.hist_dict[name] = counts, edges, low, high, reach

    def ranges(self, quantized_dtype: str) -> Ranges:
        found: Ranges = {}
        for name, histogram in self.hist_dict.items():
            low, _, threshold, divergence = optimal_threshold(histogram, quantized_dtype)
            is_above_zero = low >= 0 and quantized_dtype in ("auto", "uint8")
            found[name] = 0.0 if is_above_zero else -threshold, threshold
            if self.logger is not None:
                self.logger.debug("layer %s: %f, divergence %f", name, threshold, divergence)
        return found


def combine_histogram(
    old_hist: Histogram, arr: Any, new_min: Any, new_max: Any, new_th: Any
) -> Histogram:
    """Return a histogram with the values of an array added, widened if necessary."""
    counts, edges, low, high, reach = old_hist
    low, high = min(low, new_min), max(high, new_max)
    if new_th <= reach:
        added, _ = np.histogram(arr, bins=len(counts), range=(-reach, reach))
        return counts + added, edges, low, high, reach
    # Widened by whole bins on both sides, so that the old bins stay where they are.
    step = 2 * reach / len(counts)
    more = int((new_th - reach) // step + 1)
    reach = more * step + reach
    added, edges = np.histogram(arr, bins=len(counts) + 2 * more, range=(-reach, reach))
    added[more : more + len(counts)] += counts
    return added, edges, low, high, reach


def optimal_threshold(
    histogram: Histogram, quantized_dtype: str, num_quantized_bins: int = _QUANTIZED_BINS
) -> tuple[float, float, float, float]:
    """Return minimum, maximum, the clipping threshold, and the divergence at that threshold.

    The threshold minimizes the Kullback-Leibler divergence between the distributions before and
    after quantization (S. Migacz, 8-bit Inference with TensorRT, 2017).
    """
    counts, edges, low, high, _ = histogram
    if low >= 0 and quantized_dtype in ("auto", "uint8"):
        # The lower half of the histogram is empty; so many levels leave 255 to the upper half.
        num_quantized_bins = num_quantized_bins * 2 + 1
    threshold, divergence = nd_contrib.calibrate_entropy(
        hist=array(counts.astype("float32")),
        hist_edges=array(edges.astype("float32")),
        num_quantized_bins=num_quantized_bins,
    )
    return float(low), float(high), float(threshold.asscalar()), float(divergence.asscalar())


def is_collector(value: Any) -> bool:
    """Return whether an object can be used as a collector."""
    has_ranges = isinstance(getattr(value, "min_max_dict", None), Mapping)
    return callable(getattr(value, "collect", None)) and has_ranges
