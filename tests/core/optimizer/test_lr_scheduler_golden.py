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


def test_a_warm_up_may_take_all_updates() -> None:
    scheduler = mx.lr_scheduler.CosineScheduler(4, base_lr=1.0, final_lr=0.25, warmup_steps=4)
    rates = [scheduler(update) for update in range(6)]
    assert rates == [0.0, 0.25, 0.5, 0.75, 0.25, 0.25]
