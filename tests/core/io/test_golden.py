"""NDArrayIter against MXNet 1.9.1."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.topics.iterators import CASES, run_case


@pytest.mark.parametrize("case_id", CASES)
def test_batches_match_mxnets(case_id: str) -> None:
    golden = golden_file.topic("iterators")
    got = run_case(mx, case_id)
    assert {f"{case_id}/{key}" for key in got} == {k for k in golden if k.startswith(f"{case_id}/")}
    for key, values in got.items():
        assert values.tolist() == golden[f"{case_id}/{key}"].tolist(), key
