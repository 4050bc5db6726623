"""CachedOp: a symbol called as a function, against calling its operators one by one."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core import autograd, nd
from core.errors import MXNetError


def _dense() -> mx.sym.Symbol:
    return mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc") + 1


def test_inputs_are_in_the_symbols_order() -> None:
    op = nd.CachedOp(_dense())
    x, weight, bias = nd.ones((3, 4)), nd.ones((2, 4)), nd.array([10, 20])
    assert op(x, weight, bias).asnumpy().tolist() == [[15, 25]] * 3
    assert op(nd.ones((1, 4)), weight, bias).asnumpy().tolist() == [[15, 25]]
    with pytest.raises(MXNetError, match="requires 3 inputs but got 2; it takes x, fc_weight"):
        op(x, weight)


def test_outputs_are_written_to_out() -> None:
    op = nd.CachedOp(mx.sym.SliceChannel(mx.sym.var("x"), num_outputs=2), [("static_alloc", True)])
    x = nd.array([[1, 2], [3, 4]])
    left, right = op(x)
    assert (left.asnumpy().ravel().tolist(), right.asnumpy().ravel().tolist()) == ([1, 3], [2, 4])
    targets = [nd.zeros((2, 1)), nd.zeros((2, 1))]
    found = op(x, out=targets)
    assert all(one is target for one, target in zip(found, targets, strict=True))
    assert targets[1].asnumpy().ravel().tolist() == [2, 4]
    with pytest.raises(MXNetError, match="2 outputs but got 1 in out"):
        op(x, out=targets[0])


def test_calls_are_recorded() -> None:
    op = nd.CachedOp(_dense())
    x, weight, bias = nd.ones((3, 4)), nd.ones((2, 4)), nd.zeros((2,))
    weight.attach_grad()
    with autograd.record():
        loss = op(x, weight, bias) * 2
    loss.backward(retain_graph=True)
    np.testing.assert_array_equal(weight.grad.asnumpy(), np.full((2, 4), 6.0))
    loss.backward()


def test_moving_averages_are_updated() -> None:
    op = nd.CachedOp(mx.sym.BatchNorm(mx.sym.var("x"), momentum=0.5, name="bn"))
    x, mean, var = nd.array([[1.0], [3.0]]), nd.zeros((1,)), nd.ones((1,))
    gamma = nd.ones((1,))
    gamma.attach_grad()
    with autograd.record():
        y = op(x, gamma, nd.zeros((1,)), mean, var)
    y.backward()
    assert (mean.asscalar(), var.asscalar()) == (1.0, 1.0)


def test_a_symbol_without_inputs_runs_on_the_given_context() -> None:
    op = nd.CachedOp(mx.sym.ones((2,)))
    assert op(default_ctx=mx.cpu(1)).context == mx.cpu(1)
    assert op().context == mx.cpu(0)
