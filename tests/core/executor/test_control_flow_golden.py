"""Loops and branches against MXNet 1.9.1: outputs and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.backends import gpu_count
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.loops import BRANCHES, CASES, run_case, run_on_arrays

every_case = pytest.mark.parametrize("case_id", [*CASES, *BRANCHES])


def _golden(case_id: str) -> dict[str, np.ndarray]:
    return {
        key.removeprefix(f"{case_id}/"): value
        for key, value in golden_file.topic("loops").items()
        if key.startswith(f"{case_id}/")
    }


def _compare(case_id: str, found: dict[str, np.ndarray]) -> None:
    expected = _golden(case_id)
    assert found.keys() == expected.keys()
    for key, got in found.items():
        assert_close(f"{case_id} {key}", got, expected[key])


@every_case
def test_results_match_mxnets(case_id: str) -> None:
    _compare(case_id, run_case(mx, case_id))


@pytest.mark.parametrize("case_id", BRANCHES)
def test_imperative_loops_match_mxnets(case_id: str) -> None:
    _compare(case_id, run_on_arrays(mx, case_id))


@every_case
def test_gradients_are_added(case_id: str) -> None:
    # Two backward passes, added to ones; MXNet itself loses some of the gradients.
    expected = _golden(case_id)
    for key, got in run_case(mx, case_id, "add").items():
        value = 1 + 2 * expected[key] if key.startswith("grad_") else expected[key]
        assert_close(f"{case_id} {key}", got, value)


@every_case
def test_a_graph_loaded_from_mxnets_file_gives_the_same_results(case_id: str) -> None:
    text = (golden_file.GOLDEN / "loops" / f"{case_id}.json").read_text()
    _compare(case_id, run_case(mx, case_id, symbol=mx.sym.load_json(text)))


@pytest.mark.gpu
@pytest.mark.skipif(gpu_count() == 0, reason="no CUDA device")
@every_case
def test_results_match_on_a_gpu(case_id: str) -> None:
    _compare(case_id, run_case(mx, case_id, context=mx.gpu()))
