"""Operators on many arrays: norms, finiteness and resetting to zero."""

from __future__ import annotations

import core as mx


def test_multi_all_finite_accumulates_into_out() -> None:
    """As gradient scaling uses it: chunk after chunk into one flag."""
    flag = mx.nd.ones((1,))
    mx.nd.all_finite(mx.nd.array([1.0, float("nan")]), out=flag)
    assert flag.asscalar() == 0
    mx.nd.multi_all_finite(mx.nd.ones((2,)), num_arrays=1, init_output=False, out=flag)
    assert flag.asscalar() == 0
    mx.nd.multi_all_finite(mx.nd.ones((2,)), num_arrays=1, out=flag)
    assert flag.asscalar() == 1


def test_reset_arrays_has_no_output() -> None:
    arrays = [mx.nd.ones((2,)), mx.nd.ones((3, 1))]
    assert mx.nd.reset_arrays(*arrays, num_arrays=2) == []
    assert [array.asnumpy().sum() for array in arrays] == [0, 0]
