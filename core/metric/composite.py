"""Several metrics as one, and metrics made from a name, a function or a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .base import EvalMetric, alias, create_named, register
from .custom import CustomMetric

__all__ = ["CompositeEvalMetric", "create"]


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """Return a metric for a name, an instance, a function of (label, pred), or a list of these."""
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, (list, tuple)):
        composite = CompositeEvalMetric()
        for child in metric:
            composite.add(create(child, *args, **kwargs))
        return composite
    return create_named(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics updated together."""

    def __init__(
        self,
        metrics: Sequence[Any] | None = None,
        name: str = "composite",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        self.metrics = [create(metric) for metric in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Add a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """Return the metric at a position."""
        if not -len(self.metrics) <= index < len(self.metrics):
            raise ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")
        return self.metrics[index]

    def update_dict(self, label: Mapping[str, Any], pred: Mapping[str, Any]) -> None:
        """Accumulate a batch in every metric."""
        if self.label_names is not None:
            label = {name: label[name] for name in label if name in self.label_names}
        if self.output_names is not None:
            pred = {name: pred[name] for name in pred if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(label, pred)

    def update(self, labels: Any, preds: Any) -> None:
        """Accumulate a batch in every metric."""
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        """Clear all sums of all metrics."""
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        """Clear the sums of all metrics since the last reset."""
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[list[str], list[float]]:
        """Return the names and values of all metrics."""
        pairs = [pair for metric in self.metrics for pair in metric.get_name_value()]
        return [name for name, _ in pairs], [value for _, value in pairs]

    def get_global(self) -> tuple[list[str], list[float]]:
        """Return the names and values of all metrics over the whole epoch."""
        pairs = [pair for metric in self.metrics for pair in metric.get_global_name_value()]
        return [name for name, _ in pairs], [value for _, value in pairs]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments from which ``create`` makes an equal metric."""
        return {**super().get_config(), "metrics": [one.get_config() for one in self.metrics]}

    def get_state(self) -> dict[str, Any]:
        """Return what every metric accumulated."""
        return {"metrics": [metric.get_state() for metric in self.metrics]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``get_state`` returned."""
        for metric, one in zip(self.metrics, state["metrics"], strict=True):
            metric.set_state(one)
