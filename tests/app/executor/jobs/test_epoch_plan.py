from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.executor.jobs.epoch_plan import bucket_of_lengths, plan_epoch


def rows(plan) -> list[list[int]]:
    return [batch.rows.tolist() for batch in plan.batches]


def test_in_order_without_shuffling():
    plan = plan_epoch(6, 3)
    assert rows(plan) == [[0, 1, 2], [3, 4, 5]]
    assert [batch.pad for batch in plan.batches] == [0, 0]


def test_pad_fills_up_from_the_start():
    plan = plan_epoch(5, 3)
    assert rows(plan) == [[0, 1, 2], [3, 4, 0]]
    assert [batch.pad for batch in plan.batches] == [0, 1]
    assert plan.examples == 5


def test_pad_repeats_a_dataset_smaller_than_a_batch():
    (batch,) = plan_epoch(2, 5).batches
    assert batch.rows.tolist() == [0, 1, 0, 1, 0]
    assert batch.pad == 3


def test_discard_leaves_out_the_rest():
    assert rows(plan_epoch(5, 3, last_batch="discard")) == [[0, 1, 2]]


def test_roll_over_starts_the_next_epoch_with_the_rest():
    first = plan_epoch(5, 3, last_batch="roll_over")
    assert rows(first) == [[0, 1, 2]]
    second = plan_epoch(5, 3, last_batch="roll_over", epoch=1, rolled=first.rolled)
    assert rows(second) == [[3, 4, 0], [1, 2, 3]]
    assert second.rolled.tolist() == [4]


def test_each_epoch_has_its_own_order_decided_by_the_seed():
    def order(seed: int, epoch: int) -> list[list[int]]:
        return rows(plan_epoch(40, 8, seed=seed, epoch=epoch, shuffle=True))

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_the_smallest_bucket_that_holds_an_example():
    positions = bucket_of_lengths(np.array([1, 12, 13, 18, 30, 31]), [12, 18, 30])
    assert positions.tolist() == [0, 0, 1, 1, 2, 3]


def test_each_bucket_has_its_own_batches():
    lengths = np.array([3, 9, 4, 8, 2, 20])
    plan = plan_epoch(6, 2, lengths=lengths, bucket_keys=[4, 9])
    assert [(batch.bucket, batch.rows.tolist(), batch.pad) for batch in plan.batches] == [
        (4, [0, 2], 0),
        (4, [4, 0], 1),
        (9, [1, 3], 0),
    ]


@given(
    count=st.integers(1, 200),
    batch_size=st.integers(1, 40),
    seed=st.integers(-(2**70), 2**70),
    epoch=st.integers(0, 10**6),
    shuffle=st.booleans(),
    data=st.data(),
)
def test_every_example_comes_once(count, batch_size, seed, epoch, shuffle, data):
    keys = data.draw(st.lists(st.integers(1, 30), max_size=4, unique=True).map(sorted))
    lengths = np.array(data.draw(st.lists(st.integers(1, 30), min_size=count, max_size=count)))
    plan = plan_epoch(
        count,
        batch_size,
        seed=seed,
        epoch=epoch,
        shuffle=shuffle,
        lengths=lengths,
        bucket_keys=keys,
    )
    seen = [row for batch in plan.batches for row in batch.rows[: batch_size - batch.pad]]
    expected = [n for n in range(count) if not keys or lengths[n] <= keys[-1]]
    assert sorted(seen) == expected
    for batch in plan.batches:
        assert len(batch.rows) == batch_size
        assert 0 <= batch.pad < batch_size
        if batch.bucket is not None:
            smaller = [key for key in keys if key < batch.bucket]
            assert (lengths[batch.rows] <= batch.bucket).all()
            assert not smaller or (lengths[batch.rows] > smaller[-1]).all()


@pytest.mark.parametrize("epochs", [5])
def test_roll_over_loses_no_example(epochs: int):
    rolled = np.empty(0, dtype=np.intp)
    seen: list[int] = []
    for epoch in range(epochs):
        plan = plan_epoch(
            10, 4, seed=7, epoch=epoch, shuffle=True, last_batch="roll_over", rolled=rolled
        )
        seen += [row for batch in rows(plan) for row in batch]
        rolled = plan.rolled
    counts = np.bincount([*seen, *rolled.tolist()], minlength=10)
    assert counts.tolist() == [epochs] * 10
