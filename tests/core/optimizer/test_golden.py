"""Optimizers against MXNet 1.9.1: weights after every step, and final states."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.optimizers import CASES, OptimizerCase, run_case


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.filterwarnings("ignore:learning rate from:UserWarning")
def test_weights_and_states_match_mxnets(case: OptimizerCase) -> None:
    golden, results = golden_file.case("optimizers", case.id), run_case(mx, case)
    assert results.keys() == golden.keys()
    # Float16 weights are stored widened; they may differ by one rounding.
    tolerance = 1e-3 if case.dtype == "float16" else 3e-6
    for key, got in results.items():
        assert_close(f"{case.id} {key}", got, golden[key], tolerance)


@pytest.mark.parametrize("case_id", ["adam", "lamb", "ftml"])
def test_second_moments_match_mxnets(case_id: str) -> None:
    # They are small next to the other states; 1 - beta2 is rounded to float32.
    (case,) = (case for case in CASES if case.id == case_id)
    got = run_case(mx, case)["states"]
    expected = golden_file.topic("optimizers")[f"{case_id}/states"]
    small = np.abs(expected) < 0.01
    assert small.sum() > 10
    np.testing.assert_allclose(got[small], expected[small], rtol=3e-6, atol=3e-9)
