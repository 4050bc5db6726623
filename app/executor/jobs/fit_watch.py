"""Early stopping, and the best epoch so far, from a fit's metrics."""

from __future__ import annotations

from collections.abc import Iterable

from app.domain.checkpoint import CheckpointTag, is_better
from app.domain.job_params import FitParams, MetricChoice
from app.errors.tree import Invalid
from app.executor.jobs.fit_state import FitState

__all__ = ["FitWatch"]


class FitWatch:
    """Watches the metrics of each epoch. It keeps no state of its own; all of it is in
    ``FitState``."""

    def __init__(self, params: FitParams) -> None:
        self._params = params

    def check(self, names: Iterable[str]) -> None:
        """Raise Invalid if early stopping or the best checkpoint names a metric that the fit
        lacks."""
        known = list(names)
        choices = {
            "early_stopping": self._params.early_stopping,
            "checkpoint.keep_best": self._params.checkpoint.keep_best,
        }
        for field, choice in choices.items():
            if choice is not None and choice.metric not in known:
                expected = f"a metric of this fit: {', '.join(known)}"
                raise Invalid(f"{field}.metric", choice.metric, expected)

    def end_epoch(self, state: FitState) -> bool:
        """Record an epoch's metrics; return whether it is the best so far and its checkpoint is to
        be kept."""
        stopping = self._params.early_stopping
        if stopping is not None:
            value = self._value(state, stopping)
            if is_better(value, state.stopping.get("best"), stopping.mode, stopping.min_delta):
                state.stopping = {"best": value, "epochs": 0}
            else:
                state.stopping["epochs"] = state.stopping.get("epochs", 0) + 1
        best = self._params.checkpoint.keep_best
        if best is None:
            return False
        value = self._value(state, best)
        if not is_better(value, state.best.get("value"), best.mode):
            return False
        part, tag = self._params.part_of(best), CheckpointTag(state.epoch + 1)
        state.best = {"checkpoint": str(tag), "metric": f"{part}.{best.metric}", "value": value}
        return True

    def has_stopped(self, state: FitState) -> bool:
        """Return whether the metric has not improved for as many epochs as early stopping
        allows."""
        stopping = self._params.early_stopping
        return stopping is not None and state.stopping.get("epochs", 0) >= stopping.patience

    def _value(self, state: FitState, choice: MetricChoice) -> float | None:
        values = state.train if self._params.part_of(choice) == "train" else state.validation
        return values.get(choice.metric)
