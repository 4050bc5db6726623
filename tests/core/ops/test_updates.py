"""Steps of optimizers against MXNet 1.9.1, over the old weight and apart from it."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.case import Case
from oracle.compare import assert_close
from oracle.topics.updates import CASES, compute

_GOLDEN = golden_file.topic("updates")


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_equals_mxnet(case: Case, apart: bool) -> None:
    start = f"{case.id}/{'apart' if apart else 'over'}/"
    expected = {
        key.removeprefix(start): value for key, value in _GOLDEN.items() if key.startswith(start)
    }
    got = compute(mx, case, apart=apart)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(f"{case.id} {name}", got[name], value)


def test_golden_file_holds_the_cases_and_no_others() -> None:
    assert {key.split("/")[0] for key in _GOLDEN} == {case.id for case in CASES}
