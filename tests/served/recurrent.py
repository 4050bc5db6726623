"""Recurrent networks whose states are inputs and outputs, and what one long pass computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import core as mx

__all__ = ["FEATURES", "FUSED", "UNROLLED", "fused", "links", "long_pass", "unrolled"]

FEATURES, HIDDEN, LAYERS = 3, 5, 2
FUSED = {"gru": ("h",), "lstm": ("h", "c")}
UNROLLED = ("h0", "c0", "h1")
"""Names of the states, as in ``FUSED``."""


def fused(mode: str) -> mx.sym.Symbol:
    """Return an RNN operator of two layers, on data of (steps, examples, features)."""
    states = {
        name: mx.sym.Variable(one)
        for name, one in zip(("state", "state_cell"), FUSED[mode], strict=False)
    }
    net = mx.sym.RNN(
        mx.sym.Variable("data"),
        parameters=mx.sym.Variable("rnn_weight"),
        **states,
        mode=mode,
        state_size=HIDDEN,
        num_layers=LAYERS,
        state_outputs=True,
        name="rnn",
    )
    return mx.sym.Group([net[position] for position in range(1 + len(states))])


def unrolled(steps: int) -> mx.sym.Symbol:
    """Return a GRU cell on top of an LSTM cell, on data of (examples, steps, features)."""
    lstm, gru = mx.rnn.LSTMCell(HIDDEN, prefix="lstm_"), mx.rnn.GRUCell(HIDDEN, prefix="gru_")
    h0, c0, h1 = (mx.sym.Variable(name, shape=(0, HIDDEN)) for name in UNROLLED)
    data = mx.sym.Variable("data")
    middle, first = lstm.unroll(steps, data, [h0, c0], "NTC", merge_outputs=True)
    top, second = gru.unroll(steps, middle, [h1], "NTC", merge_outputs=True)
    ends = zip(UNROLLED, (*first, *second), strict=True)
    # Names do not depend on the number of steps, since all buckets of a module share them.
    return mx.sym.Group([top, *(mx.sym.identity(end, name=f"next_{name}") for name, end in ends)])


def links(symbol: mx.sym.Symbol, states: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the declaration of the states: they are the outputs after the first, in order."""
    outputs = symbol.list_outputs()[1:]
    pairs = zip(states, outputs, strict=True)
    return [{"state": state, "output": output} for state, output in pairs]


def long_pass(
    symbol: mx.sym.Symbol, params: Mapping[str, npt.ArrayLike], data: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return the first output of one pass from zero states, computed by the engine alone."""
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=data.shape)
    for name, array in executor.arg_dict.items():
        array[:] = np.asarray(params[name]) if name in params else 0
    executor.arg_dict["data"][:] = data
    output: npt.NDArray[Any] = executor.forward(is_train=False)[0].asnumpy()
    return output
