"""Metrics of regressions, correlations and losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import EvalMetric, alias, check_label_shapes, register, to_host

__all__ = ["MAE", "MSE", "RMSE", "Caffe", "Loss", "PearsonCorrelation", "Torch"]

Names = Sequence[str] | None


class _BatchError(EvalMetric):
    """A mean error of each batch, averaged over batches."""

    def error(self, difference: Any) -> float:
        raise NotImplementedError(f"{type(self).__name__} must define error")

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            truth, guess = _columns(to_host(label)), _columns(to_host(pred))
            self.accumulate(self.error(truth - guess), 1)


def _columns(values: Any) -> Any:
    # Labels (n,) and predictions (n, 1) would be broadcast to (n, n) by the subtraction.
    return values.reshape(-1, 1) if values.ndim == 1 else values


@register
class MAE(_BatchError):
    """Mean absolute error."""

    def __init__(
        self, name: str = "mae", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def error(self, difference: Any) -> float:
        return float(np.abs(difference).mean())


@register
class MSE(_BatchError):
    """Mean squared error."""

    def __init__(
        self, name: str = "mse", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def error(self, difference: Any) -> float:
        return float((difference**2.0).mean())


@register
class RMSE(_BatchError):
    """Root of the mean squared error."""

    def __init__(
        self, name: str = "rmse", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def error(self, difference: Any) -> float:
        return float(np.sqrt((difference**2.0).mean()))


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson correlation, averaged over batches (macro) or over all values (micro)."""

    state_names = (*EvalMetric.state_names, "_moments")

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        if average not in ("macro", "micro"):
            raise ValueError(f"average is {average!r}; expected 'macro' or 'micro'")
        self.average = average
        self._moments = np.zeros(6)
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            check_label_shapes(label, pred, False, True)
            x = to_host(pred).ravel().astype(np.float64)
            y = to_host(label).ravel().astype(np.float64)
            if self.average == "macro":
                self.accumulate(float(np.corrcoef(x, y)[0, 1]), 1)
            else:
                self.accumulate(0.0, 1)  # only tells ``get`` that there was an update
                self._moments = _merge_moments(self._moments, x, y)

    def reset(self) -> None:
        self._moments = np.zeros(6)
        super().reset()

    def get(self) -> tuple[str, float]:
        if self.average == "macro" or not self.num_inst:
            name, value = super().get()
            return name, value
        _, _, _, spread_x, spread_y, shared = self._moments.tolist()
        return self.name, shared / (spread_x * spread_y) ** 0.5

    def get_global(self) -> tuple[str, float]:
        name, value = self.get() if self.average == "micro" else super().get_global()
        return name, value


def _merge_moments(moments: Any, x: Any, y: Any) -> Any:
    """Merge count, means, squared deviations and co-deviation (Chan, Golub and LeVeque 1979)."""
    count, mean_x, mean_y, spread_x, spread_y, shared = moments.tolist()
    size = len(x)
    total = count + size
    delta_x, delta_y = x.mean() - mean_x, y.mean() - mean_y
    weight = count * size / total
    return np.array(
        [
            total,
            mean_x + delta_x * size / total,
            mean_y + delta_y * size / total,
            spread_x + ((x - x.mean()) ** 2).sum() + delta_x**2 * weight,
            spread_y + ((y - y.mean()) ** 2).sum() + delta_y**2 * weight,
            shared + ((x - x.mean()) * (y - y.mean())).sum() + delta_x * delta_y * weight,
        ]
    )


@register
class Loss(EvalMetric):
    """Mean of the outputs themselves, for networks whose outputs are losses."""

    def __init__(
        self, name: str = "loss", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def update(self, labels: Any, preds: Any) -> None:
        for pred in preds if isinstance(preds, (list, tuple)) else [preds]:
            values = to_host(pred)
            self.accumulate(float(values.sum()), values.size)


@register
class Torch(Loss):
    """``Loss`` under the name that MXNet's Torch criterions reported."""

    def __init__(
        self, name: str = "torch", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """``Loss`` under the name that MXNet's Caffe criterions reported."""

    def __init__(
        self, name: str = "caffe", output_names: Names = None, label_names: Names = None
    ) -> None:
        super().__init__(name, output_names, label_names)
