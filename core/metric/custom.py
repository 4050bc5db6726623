"""Metrics from a function of the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .base import EvalMetric, check_label_shapes, register, to_host

__all__ = ["CustomMetric", "np"]


@register
class CustomMetric(EvalMetric):
    """A function of (label, prediction) as NumPy arrays that returns a value or (sum, count).

    Args:
        feval: the function.
        name: reported name, the function's by default.
        allow_extra_outputs: accept more outputs than labels.
    """

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        if name is None:
            name = feval.__name__
            if "<" in name:  # the name of a lambda, "<lambda>"
                name = f"custom({name})"
        super().__init__(
            name,
            output_names,
            label_names,
            feval=feval,
            allow_extra_outputs=allow_extra_outputs,
            has_global_stats=True,
        )
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=False):
            value = self._feval(to_host(label), to_host(pred))
            if isinstance(value, tuple):
                self.accumulate(*value)
            else:
                self.accumulate(value, 1)

    def get_config(self) -> dict[str, Any]:
        """A function has no configuration."""
        raise NotImplementedError("CustomMetric cannot be serialized: it holds a function")


def np(
    numpy_feval: Callable[[Any, Any], Any],
    name: str | None = None,
    allow_extra_outputs: bool = False,
) -> CustomMetric:
    """Return a metric from a function of NumPy arrays (``mx.metric.np``)."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
