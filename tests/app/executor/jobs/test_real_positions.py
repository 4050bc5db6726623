"""Padding up to the bucket's length does not count in metrics."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.executor.jobs.real_positions import real_positions

CLASSES, COUNT, STEPS = 5, 3, 4
LENGTHS = np.array([4, 1, 2])
RANDOM = np.random.RandomState(0)
LABEL = RANDOM.randint(CLASSES, size=(COUNT, STEPS)).astype("f")
SCORES = RANDOM.rand(COUNT, STEPS, CLASSES).astype("f")


def arrays(**values: np.ndarray) -> dict[str, mx.nd.NDArray]:
    return {name: mx.nd.array(value) for name, value in values.items()}


@pytest.mark.parametrize(
    "scores",
    [SCORES, SCORES.reshape(-1, CLASSES), SCORES.transpose(0, 2, 1)],
    ids=["by example", "by position", "classes between"],
)
def test_only_an_examples_own_positions_count(scores: np.ndarray) -> None:
    found = real_positions(arrays(label=LABEL), arrays(out=scores), {"label": LENGTHS}, COUNT)
    assert found is not None
    (label,), (out,) = (part.values() for part in found)
    own = [(row, step) for row, length in enumerate(LENGTHS) for step in range(length)]
    np.testing.assert_array_equal(label.asnumpy(), [LABEL[at] for at in own])
    np.testing.assert_array_equal(out.asnumpy(), [SCORES[at] for at in own])


def test_examples_that_pad_the_batch_do_not_count() -> None:
    scores = arrays(out=SCORES.reshape(-1, CLASSES))
    found = real_positions(arrays(label=LABEL), scores, {}, 2)
    assert found is not None
    np.testing.assert_array_equal(found[0]["label"].asnumpy(), LABEL[:2].ravel())
    np.testing.assert_array_equal(found[1]["out"].asnumpy(), SCORES[:2].reshape(-1, CLASSES))


@pytest.mark.parametrize(
    ("labels", "outputs", "lengths"),
    [
        (arrays(label=LABEL), arrays(out=SCORES), {}),
        (arrays(label=LABEL[:, 0]), arrays(out=SCORES[:, 0]), {}),
        (arrays(label=LABEL), arrays(out=SCORES[:, 0]), {"label": LENGTHS}),
        (arrays(a=LABEL, b=LABEL), arrays(out=SCORES), {"a": LENGTHS, "b": LENGTHS}),
        ({}, arrays(out=SCORES), {}),
    ],
    ids=["no padding", "no positions", "a row per example", "two labels of one output", "no label"],
)
def test_outputs_without_such_rows_stay_whole(labels: dict, outputs: dict, lengths: dict) -> None:
    assert real_positions(labels, outputs, lengths, COUNT) is None
