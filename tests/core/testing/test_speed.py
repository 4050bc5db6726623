"""``check_speed``: how long a symbol takes."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.testing.speed import check_speed


def test_each_pass_is_timed_separately() -> None:
    calls = []

    class Counting(mx.operator.CustomOp):  # type: ignore[misc]
        def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
            calls.append(is_train)
            self.assign(out_data[0], req[0], in_data[0])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):  # type: ignore[no-untyped-def]
            calls.append("back")
            self.assign(in_grad[0], req[0], out_grad[0])

    class CountingProp(mx.operator.CustomOpProp):  # type: ignore[misc]
        def create_operator(self, ctx, shapes, dtypes):  # type: ignore[no-untyped-def]
            return Counting()

    mx.operator.register("counted_by_test_speed")(CountingProp)
    symbol = mx.sym.Custom(mx.sym.Variable("data"), op_type="counted_by_test_speed")
    assert check_speed(symbol, N=2, data=(2, 3)) > 0
    assert calls == [True, "back"] * 3
    calls.clear()
    assert check_speed(symbol, {"data": np.ones((2, 3))}, N=1, typ="forward") > 0
    assert calls == [False, False]


def test_invalid_arguments_are_refused() -> None:
    symbol = mx.sym.relu(mx.sym.Variable("data"))
    with pytest.raises(ValueError, match="typ can only be"):
        check_speed(symbol, typ="backward", data=(2,))
    with pytest.raises(UsageError, match="expected a dict"):
        check_speed(symbol, [np.ones(2)])  # type: ignore[arg-type]
