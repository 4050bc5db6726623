"""Unrolled graphs of recurrent cells, and their results."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CASES", "Case", "compute", "describe", "graph", "record"]

BATCH, FEATURES, HIDDEN, STEPS = 2, 3, 4, 3

Case = tuple[Callable[[Any], Any], dict[str, Any]]


def _stack(mx: Any) -> Any:
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.LSTMCell(HIDDEN, prefix="a_"))
    stack.add(mx.rnn.DropoutCell(0.5))
    stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(HIDDEN, prefix="b_")))
    return stack


def _zoneout(mx: Any) -> Any:
    return mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(HIDDEN), zoneout_outputs=0.3, zoneout_states=0.2)


def _bidirectional(mx: Any) -> Any:
    return mx.rnn.BidirectionalCell(
        mx.rnn.LSTMCell(HIDDEN, prefix="l_"), mx.rnn.GRUCell(HIDDEN, prefix="r_")
    )


def _residual_both(mx: Any) -> Any:
    return mx.rnn.ResidualCell(
        mx.rnn.BidirectionalCell(mx.rnn.GRUCell(2, prefix="l_"), mx.rnn.GRUCell(2, prefix="r_"))
    )


def _fused(mode: str, **options: Any) -> Callable[[Any], Any]:
    return lambda mx: mx.rnn.FusedRNNCell(HIDDEN, 2, mode=mode, **options)


def _unfused(mode: str, **options: Any) -> Callable[[Any], Any]:
    return lambda mx: _fused(mode, **options)(mx).unfuse()


def _image(name: str, **options: Any) -> Callable[[Any], Any]:
    return lambda mx: getattr(mx.rnn, name)((BATCH, FEATURES, 5, 6), HIDDEN, **options)


CASES: dict[str, Case] = {
    "rnn": (lambda mx: mx.rnn.RNNCell(HIDDEN), {}),
    "rnn_relu_merged": (lambda mx: mx.rnn.RNNCell(HIDDEN, "relu"), {"merge_outputs": True}),
    "lstm": (lambda mx: mx.rnn.LSTMCell(HIDDEN, forget_bias=2.0), {}),
    "lstm_time_major": (
        lambda mx: mx.rnn.LSTMCell(HIDDEN),
        {"layout": "TNC", "merge_outputs": True},
    ),
    "gru": (lambda mx: mx.rnn.GRUCell(HIDDEN), {"merge_outputs": False}),
    "stack": (_stack, {"merge_outputs": True}),
    "zoneout": (_zoneout, {}),
    "bidirectional": (_bidirectional, {}),
    "bidirectional_merged": (_bidirectional, {"merge_outputs": True}),
    "residual_bidirectional": (_residual_both, {"features": 4, "merge_outputs": True}),
    "fused_lstm": (_fused("lstm", get_next_state=True), {}),
    "fused_gru_both": (_fused("gru", bidirectional=True), {"layout": "TNC"}),
    "fused_split": (_fused("rnn_relu", dropout=0.5), {"merge_outputs": False}),
    "unfused_lstm": (_unfused("lstm", bidirectional=True, dropout=0.2), {"merge_outputs": True}),
    "unfused_tanh": (_unfused("rnn_tanh"), {}),
    "conv_rnn": (_image("ConvRNNCell"), {"image": True}),
    "conv_lstm": (_image("ConvLSTMCell", activation="tanh"), {"image": True}),
    "conv_gru": (_image("ConvGRUCell", i2h_stride=(2, 2)), {"image": True, "merge_outputs": True}),
}


def graph(mx: Any, case_id: str) -> Any:
    """Return the unrolled graph: outputs, then states."""
    make, options = CASES[case_id]
    options = {key: value for key, value in options.items() if key not in ("features", "image")}
    with mx.name.NameManager():
        steps = [mx.sym.Variable(f"t{step}_data") for step in range(STEPS)]
        cell = make(mx)
        outputs, states = cell.unroll(STEPS, inputs=steps, **options)
    return mx.sym.Group([*_flat(mx, outputs), *_flat(mx, states)])


def describe(mx: Any, symbol: Any) -> str:
    """Return the graph as JSON, without MXNet's version."""
    nodes = json.loads(symbol.tojson())
    nodes.pop("attrs")
    return json.dumps(nodes, sort_keys=True)


def compute(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return outputs of an inference pass over fixed inputs and parameters."""
    options = CASES[case_id][1]
    shape = (BATCH, options.get("features", HIDDEN if case_id == "stack" else FEATURES))
    shape = (BATCH, FEATURES, 5, 6) if options.get("image") else shape
    symbol = graph(mx, case_id)
    shapes = {f"t{step}_data": shape for step in range(STEPS)}
    arg_shapes, _, _ = symbol.infer_shape(**shapes)
    random = np.random.RandomState(7)
    arrays = {
        name: mx.nd.array(random.normal(scale=0.5, size=size).astype("float32"))
        for name, size in zip(symbol.list_arguments(), arg_shapes, strict=True)
    }
    outputs = symbol.bind(mx.cpu(), arrays, grad_req="null").forward(is_train=False)
    names = symbol.list_outputs()
    return {
        f"{place}_{name}": out.asnumpy()
        for place, (name, out) in enumerate(zip(names, outputs, strict=True))
    }


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return every case's graph and outputs."""
    results: dict[str, np.ndarray] = {}
    for case_id in CASES:
        results[f"{case_id}/graph"] = np.array(describe(mx, graph(mx, case_id)))
        for key, array in compute(mx, case_id).items():
            results[f"{case_id}/{key}"] = array
    return results


def _flat(mx: Any, symbols: Any) -> list[Any]:
    if isinstance(symbols, mx.sym.Symbol):
        return [symbols]
    return [one for some in symbols for one in _flat(mx, some)]
