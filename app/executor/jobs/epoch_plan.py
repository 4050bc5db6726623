"""Which examples make up which batch of an epoch: a pure function of seed and epoch.

No random generator survives between epochs, so a fit that resumes in the middle of an epoch sees
the batches that it would have seen without the interruption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["EpochPlan", "LastBatch", "PlannedBatch", "bucket_of_lengths", "plan_epoch"]

LastBatch = Literal["pad", "discard", "roll_over"]
Rows = npt.NDArray[np.intp]

_NO_ROWS: Rows = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """One batch.

    Attributes:
        rows: indices of the examples.
        pad: how many of them, at the end, are padding.
        bucket: length of its bucket; None without buckets.
    """

    rows: Rows
    pad: int = 0
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The batches of an epoch in order, and the examples that roll over into the next epoch."""

    batches: list[PlannedBatch]
    rolled: Rows

    @property
    def examples(self) -> int:
        """Number of examples in all batches, not counting padding."""
        return sum(len(batch.rows) - batch.pad for batch in self.batches)


def bucket_of_lengths(
    lengths: npt.NDArray[Any], bucket_keys: Sequence[int]
) -> npt.NDArray[np.intp]:
    """Return the index of the smallest bucket that holds each example.

    The index is ``len(bucket_keys)`` for an example that is longer than all of them.

    Args:
        lengths: of the examples.
        bucket_keys: lengths of the buckets, ascending.
    """
    return np.searchsorted(np.asarray(bucket_keys), lengths, side="left")


def plan_epoch(
    count: int,
    batch_size: int,
    *,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = False,
    last_batch: LastBatch = "pad",
    rolled: Rows = _NO_ROWS,
    lengths: npt.NDArray[Any] | None = None,
    bucket_keys: Sequence[int] = (),
) -> EpochPlan:
    """Return the batches of an epoch.

    An incomplete last batch (with buckets: of each bucket) is handled as by ``NDArrayIter``: padded
    from the start, discarded, or rolled over into the next epoch. With buckets, the batches of all
    buckets are shuffled together, as by ``BucketSentenceIter``.

    Args:
        count: number of examples.
        batch_size: examples per batch.
        seed, epoch: determine the order together.
        shuffle: whether the order is random.
        last_batch: what happens to an incomplete last batch; ``roll_over`` only without buckets.
        rolled: examples that rolled over from the previous epoch.
        lengths: of the examples, if there are buckets; examples longer than every bucket are left
            out.
        bucket_keys: lengths of the buckets, ascending.
    """
    # Philox, because its key takes seed and epoch as they are: the streams of all pairs differ.
    random = np.random.Generator(
        np.random.Philox(key=np.array([seed % 2**64, epoch], dtype=np.uint64))
    )
    order = random.permutation(count) if shuffle else np.arange(count)
    if not bucket_keys:
        return _plan_one(np.concatenate([rolled, order]), batch_size, last_batch, None)
    assert lengths is not None
    positions = bucket_of_lengths(lengths, bucket_keys)[order]
    batches: list[PlannedBatch] = []
    for position, key in enumerate(bucket_keys):
        rows = order[positions == position]
        batches += _plan_one(rows, batch_size, last_batch, key).batches
    if shuffle:
        batches = [batches[i] for i in random.permutation(len(batches))]
    return EpochPlan(batches, _NO_ROWS)


def _plan_one(rows: Rows, batch_size: int, last_batch: LastBatch, bucket: int | None) -> EpochPlan:
    whole = len(rows) // batch_size
    batches = [
        PlannedBatch(rows[i * batch_size : (i + 1) * batch_size], 0, bucket) for i in range(whole)
    ]
    rest = rows[whole * batch_size :]
    if not len(rest) or last_batch == "discard":
        return EpochPlan(batches, _NO_ROWS)
    if last_batch == "roll_over":
        return EpochPlan(batches, rest)
    pad = batch_size - len(rest)
    filled = np.concatenate([rest, np.resize(rows, pad)])
    return EpochPlan([*batches, PlannedBatch(filled, pad, bucket)], _NO_ROWS)
