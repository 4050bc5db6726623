"""Gradients of small graphs against MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.graphs import CASES, run_case


@pytest.mark.parametrize("grad_req", ["write", "add"])
@pytest.mark.parametrize("case_id", CASES)
def test_gradients_match_mxnets(case_id: str, grad_req: str) -> None:
    golden = golden_file.case("graphs", f"{case_id}/{grad_req}")
    results = run_case(mx, case_id, grad_req)
    assert results.keys() == golden.keys()
    for key, got in results.items():
        assert_close(f"{case_id} {key}", got, golden[key])


def test_a_value_output_twice_gets_both_gradients() -> None:
    # MXNet keeps only the last one.
    value = mx.sym.Variable("x") * 2
    executor = mx.sym.Group([value, value]).bind(
        mx.cpu(), {"x": mx.nd.ones((3,))}, args_grad={"x": mx.nd.zeros((3,))}
    )
    executor.forward(is_train=True)
    executor.backward([mx.nd.array([1, 2, 3]), mx.nd.array([10, 20, 30])])
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), [22, 44, 66])
