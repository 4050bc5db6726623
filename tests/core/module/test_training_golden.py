"""Three training steps of whole networks against MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.training import CASES, first_gradients, summarize, train


def _compare(case_id: str, results: dict[str, np.ndarray]) -> None:
    golden = golden_file.topic("training")
    for key, got in summarize(results).items():
        assert_close(f"{case_id} {key}", got, golden[f"{case_id}/{key}"], tolerance=1e-5)


@pytest.mark.parametrize("case_id", CASES)
def test_outputs_and_final_parameters_match_mxnets(case_id: str) -> None:
    _compare(case_id, train(mx, CASES[case_id]))


@pytest.mark.parametrize("case_id", [k for k, case in CASES.items() if case.devices == 1])
def test_first_gradients_match_mxnets(case_id: str) -> None:
    gradients = first_gradients(mx, CASES[case_id])
    _compare(case_id, {f"gradient_{name}": array for name, array in gradients.items()})
