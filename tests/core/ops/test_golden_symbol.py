"""Every operator against MXNet 1.9.1, through a symbol and its executor."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.executor import bind
from oracle import golden_file
from oracle.case import Case, all_cases
from oracle.compare import assert_close
from oracle.run_symbol import make_symbol, run_symbol

_CASES = [pytest.param(family, case, id=f"{family}-{case.id}") for family, case in all_cases()]
_UNPLANNED = CompileOptions(rewrite=False, plan=False, table=None)

every_case = pytest.mark.parametrize(("family", "case"), _CASES)
every_case_of_gradients = pytest.mark.parametrize(
    ("family", "case"), [row for row in _CASES if row.values[1].has_backward]
)
every_case_of_several_gradients = pytest.mark.parametrize(
    ("family", "case"), [row for row in _CASES if len(row.values[1].gradient_names()) > 1]
)


def _compare(family: str, case: Case, results: dict[str, np.ndarray], start: float = 0.0) -> None:
    golden = golden_file.ops(family)
    for key, got in results.items():
        expected = golden[f"{case.id}/{key}"]
        if key.startswith("grad_"):
            expected = expected + np.asarray(start, expected.dtype)
        assert_close(f"{family}/{case.id} {key}", got, expected, case.tolerance)


@every_case
def test_results_match_mxnets(family: str, case: Case) -> None:
    _compare(family, case, run_symbol(mx, case))


@every_case_of_gradients
def test_gradients_are_added_with_grad_req_add(family: str, case: Case) -> None:
    wanted = case.gradient_names()
    requests = {name: "add" if name in wanted else "null" for name in case.inputs}
    _compare(family, case, run_symbol(mx, case, grad_req=requests, start=2.0), start=2.0)


@every_case_of_several_gradients
def test_each_gradient_computed_alone_is_the_same(family: str, case: Case) -> None:
    for chosen in case.gradient_names():
        requests = {name: "write" if name == chosen else "null" for name in case.inputs}
        results = run_symbol(mx, case, grad_req=requests)
        assert f"grad_{chosen}" in results
        _compare(family, case, results)


@every_case
def test_graphs_survive_json_and_match_mxnets_without_memory_planning(
    family: str, case: Case
) -> None:
    symbol = make_symbol(mx, case)
    text = symbol.tojson()
    again = mx.sym.load_json(text)
    assert again.tojson() == text
    assert again.list_arguments() == symbol.list_arguments()
    assert again.list_auxiliary_states() == list(case.aux)
    unplanned = partial(bind, again, options=_UNPLANNED)
    _compare(family, case, run_symbol(mx, case, again, bind=unplanned))
