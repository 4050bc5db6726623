"""Finds the examples of a batch that training cannot use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from app.errors import HostError
from app.executor.jobs.epoch_plan import PlannedBatch
from app.executor.jobs.examples import Examples
from core.ndarray import NDArray

__all__ = ["check_finite"]


def check_finite(
    dataset: str, examples: Examples, given: Mapping[str, NDArray], batch: PlannedBatch, where: str
) -> None:
    """Raise HostError if inputs or labels of a batch hold NaN or infinity.

    Args:
        dataset: its name.
        examples: those of the dataset.
        given: inputs and labels of the batch.
        batch: which examples it has.
        where: the batch is, for the error.
    """
    for name, value in given.items():
        by_row = examples.by_row(name, value.asnumpy())
        rows = np.flatnonzero(~np.isfinite(by_row.reshape(len(by_row), -1)).all(axis=1))
        if len(rows):
            raise HostError(
                "invalid",
                f"example {batch.rows[rows[0]]} of dataset {dataset!r} holds NaN or infinity for "
                f"input {name!r}, and so the loss became NaN or infinite {where}; remove or "
                "replace such values",
                f"inputs.{name}",
            )
