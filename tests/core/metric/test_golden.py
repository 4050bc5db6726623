"""Metrics against MXNet 1.9.1: names, and local and global values after every batch."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.topics.metrics import CASES, run_case

# MXNet's global value is always 0 here: it never updates the sum that it divides.
_NO_GLOBAL = ("pearson_micro",)


@pytest.mark.parametrize("case_id", CASES)
def test_values_match_mxnets(case_id: str) -> None:
    golden = golden_file.topic("metrics")
    got = run_case(mx, case_id)
    assert got["names"].tolist() == golden[f"{case_id}/names"].tolist()
    for key in ("local",) if case_id in _NO_GLOBAL else ("local", "global"):
        np.testing.assert_allclose(got[key], golden[f"{case_id}/{key}"], rtol=1e-6, err_msg=key)
