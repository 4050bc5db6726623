"""Steps of optimizers against MXNet 1.9.1, over the old weight and apart from it."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.case import Case
from oracle.compare import assert_close
from oracle.topics.updates import CASES, compute, modes

_GOLDEN = golden_file.topic("updates")


_RUNS = [
    pytest.param(case, apart, id=f"{case.id}-{'apart' if apart else 'over'}")
    for case in CASES
    for apart in modes(case)
]


@pytest.mark.parametrize(("case", "apart"), _RUNS)
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


def test_many_weights_need_as_many_rates() -> None:
    arrays = [mx.nd.ones((2,))] * 4
    with pytest.raises(mx.base.MXNetError, match="lrs has 1 numbers; expected num_weights = 2"):
        mx.nd.multi_sgd_update(*arrays, lrs=(0.1,), wds=(0.0, 0.0), num_weights=2)


def test_norms_are_single_numbers() -> None:
    weight, norm = mx.nd.ones((2, 3)), mx.nd.ones((2,))
    with pytest.raises(mx.base.MXNetError, match=r"r1 has shape \(2,\), expected \(1,\)"):
        mx.nd.lamb_update_phase2(weight, weight, norm, norm, lr=0.1)


def test_symbols_update_states_between_other_inputs() -> None:
    """MXNet's symbols refuse these operators; here states may stand anywhere among the inputs."""
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
