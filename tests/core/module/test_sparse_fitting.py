"""Lazy updates in modules, step by step, against MXNet 1.9.1."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.sparse_fitting import CASES, run_case


@pytest.mark.parametrize("case_id", CASES)
def test_training_matches_mxnet(case_id: str) -> None:
    golden = golden_file.topic("sparse_fitting")
    for key, got in run_case(mx, case_id).items():
        assert_close(f"{case_id} {key}", got, golden[f"{case_id}/{key}"], tolerance=1e-5)
