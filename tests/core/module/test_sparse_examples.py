"""MXNet's sparse example models, step by step, against MXNet 1.9.1."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.sparse_examples import CASES, run_case


@pytest.mark.parametrize("case_id", CASES)
def test_training_matches_mxnet(case_id: str) -> None:
    golden = golden_file.topic("sparse_examples")
    expected = {key.partition("/")[2] for key in golden if key.startswith(f"{case_id}/")}
    found = run_case(mx, case_id)
    assert found.keys() == expected
    for key, got in found.items():
        assert_close(f"{case_id} {key}", got, golden[f"{case_id}/{key}"])
