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
    golden = golden_file.topic("normalized_loops")
    for key, got in run_case(mx, case_id, hybridize).items():
        assert_close(f"{case_id} {key}", got, golden[f"{case_id}/{key}"])
