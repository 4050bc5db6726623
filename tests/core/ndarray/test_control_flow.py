"""Loops and branches on arrays. Examples and values are from MXNet's documentation."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.ndarray.contrib import cond, foreach, while_loop


def test_foreach_accumulates_and_is_recorded() -> None:
    data = mx.nd.array([[1, 2], [3, 4], [5, 6]])
    start = mx.nd.array([10, 20])
    data.attach_grad()
    start.attach_grad()
    with mx.autograd.record():
        outputs, (last,) = foreach(lambda x, s: (x * s[0], [x + s[0]]), data, [start])
        total = outputs.sum() + last.sum()
    np.testing.assert_array_equal(outputs.asnumpy(), [[10, 40], [33, 88], [70, 156]])
    np.testing.assert_array_equal(last.asnumpy(), [19, 32])
    total.backward()
    # d/ds of x1 s + x2 (x1 + s) + x3 (x1 + x2 + s) + (x1 + x2 + x3 + s)
    np.testing.assert_array_equal(start.grad.asnumpy(), [10, 13])
    np.testing.assert_array_equal(data.grad.asnumpy()[0], [10 + 3 + 5 + 1, 20 + 4 + 6 + 1])


def test_foreach_takes_and_returns_nested_lists() -> None:
    a, b = mx.nd.array([1, 2]), mx.nd.array([3, 4])

    def body(slices, states):
        return [slices[0] + slices[1], (slices[0],)], states

    outputs, states = foreach(body, [a, b], mx.nd.zeros(1))
    assert outputs[0].asnumpy().ravel().tolist() == [4, 6]
    assert outputs[1][0].asnumpy().ravel().tolist() == [1, 2]
    assert states.asscalar() == 0


def test_while_loop_pads_its_outputs_with_zeros() -> None:
    outputs, states = while_loop(
        lambda i, s: i <= 5,
        lambda i, s: ([i + s], [i + 1, s + i]),
        (mx.nd.array([0], dtype="int64"), mx.nd.array([1], dtype="int64")),
        max_iterations=10,
    )
    assert outputs[0].asnumpy().ravel().tolist() == [1, 2, 4, 7, 11, 16, 0, 0, 0, 0]
    assert [state.asscalar() for state in states] == [6, 16]


def test_while_loop_with_one_variable_and_with_no_steps() -> None:
    outputs, last = while_loop(lambda i: i < 3, lambda i: (None, i + 1), mx.nd.zeros(1), 9)
    assert outputs == []
    assert last.asscalar() == 3
    assert while_loop(lambda i: i < 0, lambda i: (i, i), mx.nd.zeros(1), 9)[0] == []


def test_cond_runs_one_branch() -> None:
    a, b = mx.nd.array([1]), mx.nd.array([2])
    outputs = cond(a * b < 5, lambda: (a + 5) * (b + 5), lambda: 1 / 0)
    assert outputs.asscalar() == 42
    assert cond(0, lambda: 1 / 0, lambda: [a])[0] is a


def test_invalid_loops_are_refused() -> None:
    one = mx.nd.zeros(1)
    with pytest.raises(ValueError, match="max_iterations should be specified"):
        while_loop(lambda i: 1, lambda i: (i, i), one)
    with pytest.raises(ValueError, match="at least one element"):
        while_loop(lambda: 1, lambda: ([], []), [], 3)
    with pytest.raises(ValueError, match="func returned 2 loop_vars, it was given 1"):
        while_loop(lambda i: 1, lambda i: (i, [i, i]), [one], 3)
    with pytest.raises(ValueError, match="Cannot convert pred to python bool"):
        cond(np.zeros(2), lambda: one, lambda: one)
    with pytest.raises(TypeError, match="data is a int; expected an NDArray"):
        foreach(lambda x, s: (x, s), 3, one)
    with pytest.raises(ValueError, match="output 0 has inconsistent shapes"):
        while_loop(lambda x: 1, lambda x: (x, mx.nd.concat(x, x, dim=0)), [one], 2)
