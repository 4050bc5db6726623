"""A module with buckets whose outputs do not depend on padding: sums over the real steps."""

from __future__ import annotations

from typing import Any

import numpy as np

import core as mx
from app.client import Client

__all__ = ["FEATURES", "ask", "create", "network"]

FEATURES, BATCH, KEYS = 4, 8, tuple(range(2, 13))


def network() -> Any:
    """Return a net for any length: the sum of the steps, and their number."""
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("lengths")
    steps = mx.sym.swapaxes(data, dim1=0, dim2=1)
    masked = mx.sym.SequenceMask(steps, lengths, use_sequence_length=True)
    net = mx.sym.FullyConnected(mx.sym.sum(masked, axis=0), num_hidden=2, name="fc")
    return net.tojson()


def create(client: Client, name: str = "net", bound: tuple[int, ...] = (6, 12)) -> None:
    """Create a module with a symbol for each of many lengths, and bind a few of them."""
    symbols = {n: network() for n in KEYS}
    client.create_bucketing_module(name, symbols, bound[-1], data_names=["data", "lengths"])
    buckets = {str(n): {"data_shapes": shapes(n)} for n in bound[:-1]}
    client.bind(name, shapes(bound[-1]), for_training=False, buckets=buckets)
    client.init_params(name, seed=1)


def shapes(steps: int) -> list[dict[str, Any]]:
    """Return the input shapes for a length."""
    return [
        {"name": "data", "shape": [BATCH, steps, FEATURES], "layout": "NTC"},
        {"name": "lengths", "shape": [BATCH], "lengths_of": "data"},
    ]


def ask(client: Client, lengths: dict[int, int], name: str = "net", rows: int = 1) -> None:
    """Request predictions.

    Args:
        client: a client of the server.
        lengths: how often to ask for each length.
        name: the module.
        rows: the number of examples in each request.
    """
    for steps, times in lengths.items():
        for _ in range(times):
            client.predict(name, data=np.ones((rows, steps, FEATURES), "f"))
