"""Complete runs of fit, score and predict against MXNet 1.9.1."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.fitting import CASES, run_case


@pytest.mark.parametrize("case_id", CASES)
def test_training_matches_mxnet(case_id: str) -> None:
    golden, results = golden_file.case("fitting", case_id), run_case(mx, case_id)
    assert results.keys() == golden.keys()
    for key, got in results.items():
        assert_close(f"{case_id} {key}", got, golden[key], tolerance=1e-5)
