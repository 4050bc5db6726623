"""Optimizer steps against MXNet 1.9.1, in place and into another array."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.case import Case
from oracle.compare import assert_close
from oracle.topics import sparse_steps
from oracle.topics.updates import CASES, compute, modes

_GOLDEN = golden_file.topic("updates")


_RUNS = [
    pytest.param(case, apart, id=f"{case.id}-{'apart' if apart else 'over'}")
    for case in CASES
    for apart in modes(case)
]


@pytest.mark.parametrize(("case", "apart"), _RUNS)
def test_results_match_mxnets(case: Case, apart: bool) -> None:
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


def test_multi_weight_updates_need_as_many_rates() -> None:
    arrays = [mx.nd.ones((2,))] * 4
    with pytest.raises(mx.base.MXNetError, match="lrs has 1 numbers; expected one for each of 2"):
        mx.nd.multi_sgd_update(*arrays, lrs=(0.1,), wds=(0.0, 0.0), num_weights=2)


@pytest.mark.parametrize("name", ["lrs", "wds", "etas"])
def test_multi_weight_adamw_needs_as_many_rates(name: str) -> None:
    rates = {"lrs": (0.1,), "wds": (0.1,), "etas": (0.1,), name: (0.1, 0.2)}
    arrays = [[mx.nd.ones((2,))]] * 4
    with pytest.raises(mx.base.MXNetError, match=f"{name} has 2 numbers; expected one for each"):
        mx.nd.contrib.multi_adamw_update(*arrays, 1.0, **rates)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("op", ["adamw", "lamb"])
def test_multi_weight_updates_match_separate_ones(op: str, half: bool) -> None:
    """The functions reorder lists of arrays into the operators' order."""

    def arrays() -> list[list[mx.nd.NDArray]]:
        lists = [
            [mx.nd.arange(1, 4) * (k + 1), mx.nd.arange(2, 7)] for k in range(5 if half else 4)
        ]
        kinds = ["float16" if half and k < 2 else "float32" for k in range(5)]
        return [[x.astype(kind) for x in one] for one, kind in zip(lists, kinds, strict=False)]

    function = getattr(mx.nd.contrib, f"multi_{'mp_' if half else ''}{op}_update")
    first = (0.5,) if op == "adamw" else ()

    def step(lists: list[list[mx.nd.NDArray]], chosen: slice) -> None:
        lists = [one[chosen] for one in lists]
        named = {"lrs": (0.1, 0.2)[chosen], "wds": (0.0, 0.3)[chosen]}
        more = {"etas": (0.7, 1.0)[chosen]} if op == "adamw" else {"step_count": (1, 5)[chosen]}
        function(*lists, *first, **named, **more, out=lists[0])

    together, alone = arrays(), arrays()
    step(together, slice(0, 2))
    for number in range(2):
        step(alone, slice(number, number + 1))
    for many, one in zip(together, alone, strict=True):
        for got, expected in zip(many, one, strict=True):
            assert_close(op, got.asnumpy(), expected.asnumpy())
    assert together[0][0].asnumpy().tolist() != arrays()[0][0].asnumpy().tolist()


def test_norms_must_be_single_numbers() -> None:
    weight, norm = mx.nd.ones((2, 3)), mx.nd.ones((2,))
    with pytest.raises(mx.base.MXNetError, match=r"r1 has shape \(2,\), expected \(1,\)"):
        mx.nd.lamb_update_phase2(weight, weight, norm, norm, lr=0.1)


def test_states_may_stand_between_other_inputs_of_a_symbol() -> None:
    """MXNet's symbols refuse these operators; here states may be anywhere among the inputs."""
    names = ("w0", "g0", "m0", "w1", "g1", "m1")
    symbol = mx.sym.multi_sgd_mom_update(
        *map(mx.sym.Variable, names), lrs=(1.0, 0.5), wds=(0.0, 0.0), momentum=0.5, num_weights=2
    )
    assert symbol.list_auxiliary_states() == ["m0", "m1"]
    arguments = {name: mx.nd.full((2,), 4.0) for name in ("w0", "g0", "w1", "g1")}
    states = {name: mx.nd.full((2,), 2.0) for name in ("m0", "m1")}
    executor = symbol.bind(mx.cpu(), arguments, aux_states=states, grad_req="null")
    outputs = [array.asnumpy().tolist() for array in executor.forward()]
    assert outputs == [[1.0, 1.0], [3.0, 3.0]]
    assert [array.asnumpy().tolist() for array in states.values()] == [[-3.0, -3.0], [-1.0, -1.0]]


def test_row_sparse_updates_match_mxnets() -> None:
    golden = golden_file.topic("sparse_steps")
    found = sparse_steps.run(mx)
    assert found.keys() == golden.keys()
    for name, value in golden.items():
        assert_close(name, found[name], value)


def test_adagrad_refuses_weight_decay() -> None:
    arrays = [mx.nd.ones((2, 2))] * 3
    with pytest.raises(mx.base.MXNetError, match=r"'wd' is 0\.1; its maximum is 0"):
        mx.nd.sparse.adagrad_update(*arrays, lr=0.1, wd=0.1)


@pytest.mark.parametrize("half", [False, True])
def test_adamw_as_a_symbol_takes_a_constant_scale(half: bool) -> None:
    names = ["weight", "grad", "mean", "var", *["weight32"] * half]
    arrays = [mx.nd.array([k + 1.0, 2 * k - 1]) for k in range(len(names))]
    arrays = [x.astype("float16") if half and k < 2 else x for k, x in enumerate(arrays)]
    name, rates = "mp_adamw_update" if half else "adamw_update", {"lr": 0.1, "eta": 0.5}
    function = getattr(mx.sym.contrib, name)
    symbol = function(*map(mx.sym.Variable, names), 0.5, **rates)
    states = symbol.list_auxiliary_states()
    assert states == names[2:]
    given = dict(zip(names, (array.copy() for array in arrays), strict=True))
    executor = symbol.bind(
        mx.cpu(),
        {key: value for key, value in given.items() if key not in states},
        aux_states={key: given[key] for key in states},
    )
    expected = getattr(mx.nd.contrib, name)(*arrays, 0.5, **rates)
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), expected.asnumpy())
    factor = function(*map(mx.sym.Variable, names), mx.sym.Variable("factor"), **rates)
    assert "factor" in factor.list_arguments()
