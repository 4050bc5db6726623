"""Digests of submissions, by which repeated requests are recognized."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.job import JobKind
from app.services.jobs.submissions import read_submission

FIT = {
    "dataset": "mnist",
    "epochs": 2,
    "batch_size": 64,
    "inputs": {"data": {"array": "images", "scale": 0.5}, "softmax_label": "labels"},
    "validation": {"dataset": "test", "inputs": {"data": "others"}},
}


@pytest.mark.parametrize(
    ("kind", "body", "fingerprint"),
    [
        (JobKind.FIT, FIT, "57d9ae69bd5f9b873253f670fd7421e4d3c96973529147fc1cfa656cc11166df"),
        (
            JobKind.SCORE,
            {"dataset": "mnist", "batch_size": 4},
            "79f77475f018cdccbbb3de12b109b70eb236455adf975f61852b72e8af6c37a4",
        ),
    ],
)
def test_fingerprints_are_those_of_earlier_releases(
    kind: JobKind, body: dict[str, Any], fingerprint: str
) -> None:
    """They were computed by the release before columns; a client may repeat a request across an
    upgrade."""
    assert read_submission("net", kind, body).fingerprint == fingerprint


def test_columns_and_classes_are_part_of_fingerprints() -> None:
    inputs = {"data": ["a", "b"], "label": "c"}
    bodies = [
        FIT | {"inputs": inputs},
        FIT | {"inputs": inputs | {"data": ["b", "a"]}},
        FIT | {"inputs": inputs | {"data": {"all_but": ["c"]}}},
        FIT | {"inputs": inputs, "classes": {"c": ["x", "y"]}},
    ]
    digests = {read_submission("net", JobKind.FIT, body).fingerprint for body in bodies}
    assert len(digests) == len(bodies)
