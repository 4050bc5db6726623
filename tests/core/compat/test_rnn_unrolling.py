"""The deprecated function that unrolls a recurrent cell."""

from __future__ import annotations

import pytest

import core as mx


def test_a_cell_is_unrolled_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="call cell.unroll"):
        outputs, states = mx.rnn.rnn_unroll(mx.rnn.RNNCell(4, prefix="rnn_"), 3, input_prefix="x_")
    assert len(outputs) == 3
    assert len(states) == 1
    arguments = mx.sym.Group(outputs).list_arguments()
    assert [name for name in arguments if name.startswith("x_")] == [
        f"x_t{step}_data" for step in range(3)
    ]
