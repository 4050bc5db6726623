"""Optimizers against MXNet 1.9.1: weights after every step and the states they end with."""

from __future__ import annotations

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
