"""Loops and branches that contain moving averages, against MXNet 1.9.1."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.normalized_loops import CASES, run_case


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("case_id", CASES)
def test_training_matches_mxnet(case_id: str, hybridize: bool) -> None:
    golden = golden_file.case("normalized_loops", case_id)
    results = run_case(mx, case_id, hybridize)
    assert results.keys() == golden.keys()
    for key, got in results.items():
        assert_close(f"{case_id} {key}", got, golden[key])
