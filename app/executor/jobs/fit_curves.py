"""The curves of a fit: values of every batch, written to a file for display."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.executor.modules.engine_optimizer import optimizer_of
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.statistics import parameter_arrays
from app.files.histogram_series import HistogramWriter, histogram_of, histograms_path
from app.files.metric_series import SeriesWriter

__all__ = ["FitCurves"]

_RATE = "learning_rate"


class FitCurves:
    """Writes metrics and learning rate of every batch, and histograms on request."""

    def __init__(self, module: HostedModule, pattern: str | None) -> None:
        """Prepare.

        Args:
            pattern: matches the names of parameters that get histograms; None for no histograms.
        """
        self._module = module
        self._pattern = pattern
        self._series: SeriesWriter | None = None
        self._histograms: HistogramWriter | None = None

    def begin(self, path: Path, metrics: Sequence[str], before: tuple[int, int]) -> None:
        """Start at a position (epoch, batch), keeping what was written before that position."""
        self._series = SeriesWriter(path, [*metrics, _RATE], before)
        if self._pattern is not None:
            arrays = list(parameter_arrays(self._module, self._pattern))
            self._histograms = HistogramWriter(histograms_path(path), arrays, before)

    def add(self, epoch: int, batch: int, metrics: Sequence[float | None]) -> None:
        """Record the metrics of a batch and the learning rate that it was trained with."""
        if self._series is not None:
            optimizer = optimizer_of(self._module.engine)
            rate = None if optimizer is None else float(optimizer.learning_rate)
            self._series.add(epoch, batch, [*metrics, rate])

    def add_histograms(self, epoch: int, batch: int) -> None:
        """Record the weights before a training batch, and its gradients."""
        if self._histograms is None or self._pattern is None or not self._histograms.begin_batch():
            return
        arrays = parameter_arrays(self._module, self._pattern).values()
        made = [histogram_of([one.asnumpy() for one in copies]) for copies in arrays]
        self._histograms.add(epoch, batch, made)

    def flush(self) -> None:
        """Write everything to the file, so that readers see it and a fit can resume if this process
        dies."""
        for one in (self._series, self._histograms):
            if one is not None:
                one.flush()

    def close(self) -> None:
        """Write what is still buffered and close the file."""
        for one in (self._series, self._histograms):
            if one is not None:
                one.close()
