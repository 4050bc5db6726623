"""``mx.sym.contrib.foreach``, ``while_loop`` and ``cond``: composition, JSON, inference, errors."""

from __future__ import annotations

import copy
import pickle

import pytest

import core as mx
from oracle import golden_file
from oracle.topics.loops import BRANCHES, CASES, build, describe

every_case = pytest.mark.parametrize("case_id", [*CASES, *BRANCHES])


def _mxnets_json(case_id: str) -> str:
    return (golden_file.GOLDEN / "loops" / f"{case_id}.json").read_text()


# -- JSON -------------------------------------------------------------------------------


@every_case
def test_composes_what_mxnet_composes(case_id: str) -> None:
    assert build(mx, case_id)[0].tojson() == _mxnets_json(case_id)


@every_case
def test_mxnets_json_survives(case_id: str) -> None:
    text = _mxnets_json(case_id)
    symbol = mx.sym.load_json(text)
    assert symbol.tojson() == text
    assert describe(symbol) == describe(build(mx, case_id)[0])
    for other in (copy.copy(symbol), copy.deepcopy(symbol), pickle.loads(pickle.dumps(symbol))):
        assert other.tojson() == text
