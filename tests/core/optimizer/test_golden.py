"""Optimizers against MXNet 1.9.1: weights after every step and the states they end with."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.optimizers import CASES, OptimizerCase, run_case


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.filterwarnings("ignore:learning rate from:UserWarning")
def test_equals_mxnet(case: OptimizerCase) -> None:
    golden = golden_file.topic("optimizers")
    # Float16 weights are stored widened: what they can differ by is one rounding.
    tolerance = 1e-3 if case.dtype == "float16" else 3e-6
    for key, got in run_case(mx, case).items():
        assert_close(f"{case.id} {key}", got, golden[f"{case.id}/{key}"], tolerance)


@pytest.mark.parametrize("case_id", ["adam", "lamb", "ftml"])
def test_means_of_squares_equal_mxnet(case_id: str) -> None:
    # They are small beside the other states; 1 - beta2 counts as float32 has it.
    (case,) = (case for case in CASES if case.id == case_id)
    got = run_case(mx, case)["states"]
    expected = golden_file.topic("optimizers")[f"{case_id}/states"]
    small = np.abs(expected) < 0.01
    assert small.sum() > 10
    np.testing.assert_allclose(got[small], expected[small], rtol=3e-6, atol=3e-9)
