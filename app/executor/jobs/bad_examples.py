"""Finds the examples of a batch that training cannot use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from app.domain.module import BucketShapes
from app.errors.tree import HostError
from app.executor.background import Waits, awaited, in_background
from app.executor.jobs.epoch_plan import PlannedBatch
from app.executor.jobs.examples import Examples
from app.executor.modules.class_ranges import ClassRange, class_ranges
from app.executor.modules.hosted_module import HostedModule
from core.ndarray import NDArray

__all__ = ["check_batch_labels", "check_finite", "look_at_labels"]

_MOST_LABELS = 1 << 27
"""Labels are all looked at before the first batch if there are at most so many."""
_CHUNK = 1 << 20


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


def look_at_labels(
    module: HostedModule, sources: Sequence[tuple[Examples, str, str]]
) -> Waits[list[ClassRange]]:
    """Refuse labels that are not numbers of classes.

    Args:
        module: bound for training.
        sources: the examples of each dataset, its name, and the path of its source in the job's
            parameters, with a trailing dot.

    Returns:
        What labels may hold, if there are too many to look at; ``check_batch_labels`` does it then.

    Raises:
        Invalid: for the first one.
    """
    bind = module.record.bind
    assert bind is not None
    shapes = BucketShapes(data_shapes=bind.data_shapes, label_shapes=bind.label_shapes)
    ranges = class_ranges(module.default_symbol, shapes)
    left = []
    for examples, dataset, part in sources:
        if sum(examples.size_of(one.label) for one in ranges) > _MOST_LABELS:
            left = ranges
        else:
            yield from awaited(in_background(_check_all, examples, ranges, dataset, part))
    return left


def _check_all(examples: Examples, ranges: Sequence[ClassRange], dataset: str, part: str) -> None:
    for one in ranges:
        for start, values in examples.chunks(one.label, _CHUNK):
            numbers = range(start, start + len(values))
            one.check(values, f"{part}inputs.{one.label}", f"dataset {dataset!r}", numbers)


def check_batch_labels(
    given: Mapping[str, NDArray],
    examples: Examples,
    batch: PlannedBatch,
    ranges: Sequence[ClassRange],
    dataset: str,
) -> None:
    """Raise Invalid for a label of a batch that is not the number of a class."""
    for one in ranges:
        values = examples.by_row(one.label, given[one.label].asnumpy())
        one.check(values, f"inputs.{one.label}", f"dataset {dataset!r}", batch.rows)
