"""Unrolled recurrent cells: the graphs and results of MXNet 1.9.1."""

from __future__ import annotations

import json

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.recurrent import CASES, compute, describe, graph

pytestmark = pytest.mark.filterwarnings("ignore:NTC layout detected")


@pytest.mark.parametrize("case_id", CASES)
def test_graphs_match_mxnets(case_id: str) -> None:
    expected = str(golden_file.topic("recurrent")[f"{case_id}/graph"])
    assert json.loads(describe(mx, graph(mx, case_id))) == json.loads(expected)


@pytest.mark.parametrize("case_id", CASES)
def test_outputs_match_mxnets(case_id: str) -> None:
    golden = golden_file.topic("recurrent")
    got = compute(mx, case_id)
    assert len(got) == sum(key.startswith(f"{case_id}/") for key in golden) - 1
    for key, array in got.items():
        assert_close(f"{case_id} {key}", array, golden[f"{case_id}/{key}"])
