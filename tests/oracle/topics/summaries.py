"""Graphs as ``mx.viz.print_summary`` prints them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from oracle import networks

__all__ = ["CASES", "record", "summary"]

Case = tuple[Callable[[Any], Any], dict[str, tuple[int, ...]]]


def _sentence(mx: Any) -> Any:
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=100, output_dim=28, name="emb1")
    x = mx.sym.Convolution(x, name="conv1", num_filter=32, kernel=(3,), stride=(2,), no_bias=True)
    x = mx.sym.BatchNorm(x, name="bn1")
    x = mx.sym.FullyConnected(x, name="fc1", num_hidden=10)
    return mx.sym.SliceChannel(x, num_outputs=10, name="slice_1", squeeze_axis=False)


CASES: dict[str, Case] = {
    "lenet": (networks.lenet, {"data": (2, 1, 28, 28)}),
    "residual": (
        lambda mx: networks.residual(mx, (1, 1), (4, 4, 8), 5),
        {"data": (2, 3, 8, 8)},
    ),
    "sentence": (_sentence, {"data": (2, 7)}),
}


def summary(mx: Any, case_id: str, with_shapes: bool) -> str:
    """Return the printed summary of a graph, with or without shapes."""
    build, shapes = CASES[case_id]
    with mx.name.NameManager():
        symbol = build(mx)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        mx.viz.print_summary(symbol, shapes if with_shapes else None)
    return printed.getvalue()


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every case's table."""
    return {
        f"{case_id}/{with_shapes}": np.array(summary(mx, case_id, with_shapes))
        for case_id in CASES
        for with_shapes in (True, False)
    }
