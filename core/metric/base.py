"""The base of all metrics: sums since the last reset, and sums of the whole epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import UsageError
from ..ndarray import NDArray
from ..registry import ClassRegistry

__all__ = ["EvalMetric", "alias", "check_label_shapes", "create_named", "register"]

HostArray = npt.NDArray[Any]


def check_label_shapes(
    labels: Any, preds: Any, wrap: bool = False, shape: bool = False
) -> tuple[Any, Any]:
    """Compare the numbers (or with ``shape`` the shapes) of labels and predictions.

    With ``wrap`` single arrays come back as lists. Raise ValueError where they differ.
    """
    got = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if got[0] != got[1]:
        raise UsageError(f"Shape of labels {got[0]} does not match shape of predictions {got[1]}")
    if wrap:
        labels = [labels] if isinstance(labels, NDArray) else labels
        preds = [preds] if isinstance(preds, NDArray) else preds
    return labels, preds


def to_host(array: Any) -> HostArray:
    """Return a NumPy array for an NDArray or NumPy array."""
    return array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)


class EvalMetric:
    """Base of all metrics (``mx.metric.EvalMetric``).

    Args:
        name: under which ``get`` reports.
        output_names, label_names: the outputs and labels that ``update_dict`` reads; None for all.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "num_inst",
        "sum_metric",
        "global_num_inst",
        "global_sum_metric",
    )
    """Attributes that hold what was accumulated."""

    num_inst: float
    sum_metric: float
    global_num_inst: float
    global_sum_metric: float

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats: bool = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Return the arguments from which ``create`` makes an equal metric."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def update_dict(self, label: Mapping[str, Any], pred: Mapping[str, Any]) -> None:
        """Accumulate a batch given by name."""
        preds = [pred[n] for n in self.output_names] if self.output_names else [*pred.values()]
        labels = [label[n] for n in self.label_names] if self.label_names else [*label.values()]
        self.update(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Accumulate a batch: lists of labels and predictions."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def accumulate(self, total: float, count: float) -> None:
        """Add to the local and the global sums."""
        self.sum_metric += total
        self.global_sum_metric += total
        self.num_inst += count
        self.global_num_inst += count

    def reset(self) -> None:
        """Clear all sums."""
        self.global_num_inst = 0
        self.global_sum_metric = 0.0
        self.reset_local()

    def reset_local(self) -> None:
        """Clear the sums since the last reset, but not those of the epoch."""
        self.num_inst = 0
        self.sum_metric = 0.0

    def get(self) -> tuple[Any, Any]:
        """Return (name, value) since the last reset; NaN before the first update."""
        value = self.sum_metric / self.num_inst if self.num_inst else float("nan")
        return self.name, value

    def get_global(self) -> tuple[Any, Any]:
        """Return (name, value) of the whole epoch."""
        if not self._has_global_stats:
            return self.get()
        count = self.global_num_inst
        return self.name, self.global_sum_metric / count if count else float("nan")

    def get_name_value(self) -> list[tuple[str, float]]:
        """Return ``get`` as a list of pairs."""
        return _pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """Return ``get_global`` as a list of pairs."""
        return _pairs(self.get_global() if self._has_global_stats else self.get())

    def get_state(self) -> dict[str, Any]:
        """Return what was accumulated, as plain data."""
        return {name: _plain(getattr(self, name)) for name in self.state_names}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what ``get_state`` returned."""
        for name in self.state_names:
            current = getattr(self, name)
            value = state[name]
            # ``get_state`` turned arrays into lists, so that the state is plain data.
            setattr(self, name, np.array(value) if isinstance(current, np.ndarray) else value)


def _pairs(named: tuple[Any, Any]) -> list[tuple[str, float]]:
    name, value = named
    names = name if isinstance(name, list) else [name]
    values = value if isinstance(value, list) else [value]
    return list(zip(names, values, strict=False))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


_registry: ClassRegistry[EvalMetric] = ClassRegistry(EvalMetric, "metric")
register = _registry.register
alias = _registry.alias
create_named = _registry.create
