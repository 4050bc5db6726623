"""Learning rate schedules against MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.topics.schedulers import CASES, run_case


@pytest.mark.parametrize("case_id", CASES)
def test_rates_match_mxnets(case_id: str) -> None:
    expected = golden_file.topic("schedulers")[case_id]
    np.testing.assert_allclose(run_case(mx, case_id), expected, rtol=1e-12)
