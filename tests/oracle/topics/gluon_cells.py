"""Gluon's recurrent cells: unrolled graphs, results, and parameter files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oracle.topics.recurrent import describe

__all__ = ["CASES", "compute", "fill", "graph", "inputs", "make", "record", "written"]

BATCH, FEATURES, HIDDEN, STEPS = 2, 3, 4, 3
LENGTHS = (1, 3)

Case = tuple[Callable[[Any], Any], dict[str, Any]]


def _stack(mx: Any, kind: str) -> Any:
    stack = getattr(mx.gluon.rnn, kind)(prefix="stack_")
    with stack.name_scope():
        stack.add(mx.gluon.rnn.LSTMCell(HIDDEN))
        stack.add(mx.gluon.rnn.DropoutCell(0.5))
        stack.add(mx.gluon.rnn.ResidualCell(mx.gluon.rnn.GRUCell(HIDDEN)))
    return stack


def _both(mx: Any) -> Any:
    rnn = mx.gluon.rnn
    return rnn.BidirectionalCell(rnn.LSTMCell(HIDDEN, prefix="l_"), rnn.GRUCell(2, prefix="r_"))


def _residual_both(mx: Any) -> Any:
    rnn = mx.gluon.rnn
    cells = rnn.GRUCell(2, prefix="l_"), rnn.RNNCell(1, "relu", prefix="r_")
    return rnn.ResidualCell(rnn.BidirectionalCell(*cells))


def _stack_of_both(mx: Any) -> Any:
    stack = mx.gluon.rnn.HybridSequentialRNNCell(prefix="both_")
    stack.add(_both(mx))
    stack.add(mx.gluon.rnn.RNNCell(HIDDEN, prefix="top_"))
    return stack


def _cell(name: str, *args: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda mx: getattr(mx.gluon.rnn, name)(HIDDEN, *args, **options)


def _conv(name: str, *args: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda mx: getattr(mx.gluon.contrib.rnn, name)(*args, **options)


def _variational(mx: Any, **parts: float) -> Any:
    cell = mx.gluon.rnn.LSTMCell(HIDDEN)
    return mx.gluon.contrib.rnn.VariationalDropoutCell(cell, **parts)


CASES: dict[str, Case] = {
    "rnn": (_cell("RNNCell"), {}),
    "rnn_softsign": (_cell("RNNCell", "softsign"), {"merge_outputs": True}),
    "rnn_time_major": (_cell("RNNCell", "relu"), {"layout": "TNC", "merge_outputs": True}),
    "lstm": (_cell("LSTMCell", input_size=FEATURES), {"merge_outputs": False}),
    "lstm_activations": (
        _cell("LSTMCell", activation="relu", recurrent_activation="softrelu"),
        {"layout": "TNC"},
    ),
    "lstm_lengths": (_cell("LSTMCell"), {"lengths": True}),
    "gru": (_cell("GRUCell"), {"merge_outputs": True}),
    "gru_lengths_time_major": (
        _cell("GRUCell"),
        {"layout": "TNC", "lengths": True, "merge_outputs": True},
    ),
    "stack": (lambda mx: _stack(mx, "SequentialRNNCell"), {"merge_outputs": True}),
    "hybrid_stack": (
        lambda mx: _stack(mx, "HybridSequentialRNNCell"),
        {"lengths": True, "merge_outputs": True},
    ),
    "zoneout": (
        lambda mx: mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.LSTMCell(HIDDEN), 0.3, 0.2),
        {},
    ),
    "both": (_both, {}),
    "both_merged": (_both, {"merge_outputs": True}),
    "both_lengths": (_both, {"lengths": True, "merge_outputs": True}),
    "stack_of_both": (_stack_of_both, {"layout": "TNC", "merge_outputs": True}),
    "residual_both": (_residual_both, {"lengths": True, "merge_outputs": True}),
    "variational": (
        lambda mx: _variational(mx, drop_inputs=0.3, drop_outputs=0.5),
        {"lengths": True},
    ),
    "variational_states": (
        lambda mx: _variational(mx, drop_states=0.5, drop_outputs=0.1),
        {"merge_outputs": True},
    ),
    "projected": (lambda mx: mx.gluon.contrib.rnn.LSTMPCell(5, HIDDEN), {"merge_outputs": True}),
    "conv_rnn_1d": (
        _conv("Conv1DRNNCell", (FEATURES, 6), 2, 3, 3, i2h_pad=1),
        {"step": (FEATURES, 6)},
    ),
    "conv_lstm_2d": (
        _conv("Conv2DLSTMCell", (FEATURES, 5, 6), 2, (3, 2), 3, activation="relu"),
        {"step": (FEATURES, 5, 6)},
    ),
    "conv_gru_3d": (
        _conv(
            "Conv3DGRUCell", (FEATURES, 3, 3, 4), 2, 3, 1, i2h_pad=(1, 1, 2), i2h_dilate=(1, 1, 2)
        ),
        {"step": (FEATURES, 3, 3, 4)},
    ),
}


def make(mx: Any, case_id: str) -> tuple[Any, dict[str, Any]]:
    """Return a cell, named as the first of a script, and the options of its unroll."""
    maker, options = CASES[case_id]
    options = {key: value for key, value in options.items() if key not in ("lengths", "step")}
    with mx.name.NameManager():
        return maker(mx), options


def graph(mx: Any, case_id: str) -> Any:
    """Return the unrolled graph: outputs, then states."""
    cell, options = make(mx, case_id)
    with mx.name.NameManager():
        if CASES[case_id][1].get("lengths"):
            options["valid_length"] = mx.sym.Variable("lengths")
        outputs, states = cell.unroll(STEPS, mx.sym.Variable("data"), **options)
    return mx.sym.Group([*_flat(mx, outputs), *_flat(mx, states)])


def inputs(case_id: str) -> dict[str, np.ndarray]:
    """Return the sequences, and their lengths if the case has any."""
    options = CASES[case_id][1]
    step = options.get("step", (HIDDEN,) if "stack" in case_id else (FEATURES,))
    sizes = (STEPS, BATCH) if options.get("layout") == "TNC" else (BATCH, STEPS)
    random = np.random.RandomState(3)
    arrays = {"data": random.normal(size=(*sizes, *step)).astype("float32")}
    if options.get("lengths"):
        arrays["valid_length"] = np.array(LENGTHS, "float32")
    return arrays


def fill(mx: Any, cell: Any) -> None:
    """Set the parameters to values that depend on their order and shape."""
    random = np.random.RandomState(5)
    for name, parameter in sorted(cell.collect_params().items()):
        kind = np.float32(0.4 if "weight" in name else 0.1)
        values = random.normal(size=parameter.shape).astype("float32") * kind
        parameter.set_data(mx.nd.array(values))


def compute(mx: Any, case_id: str, compiled: bool = False) -> dict[str, np.ndarray]:
    """Return outputs and states over arrays, and gradients of parameters and data."""
    cell, options = make(mx, case_id)
    cell.initialize()
    if compiled:
        cell.hybridize()
    arrays = {name: mx.nd.array(values) for name, values in inputs(case_id).items()}
    data = arrays.pop("data")
    cell.unroll(STEPS, data, **options, **arrays)  # infers the shapes of parameters
    fill(mx, cell)
    data.attach_grad()
    # Backward in inference mode: otherwise dropout would be random.
    with mx.autograd.record(train_mode=False):
        outputs, states = cell.unroll(STEPS, data, **options, **arrays)
        found = [*_flat(mx, outputs), *_flat(mx, states)]
        total = sum((one * one).sum() for one in found)
    total.backward(train_mode=False)
    results = {f"out{place}": one.asnumpy() for place, one in enumerate(found)}
    results["data_grad"] = data.grad.asnumpy()
    for name, parameter in sorted(cell.collect_params().items()):
        results[f"grad/{name}"] = parameter.grad().asnumpy()
    return results


def written(mx: Any, case_id: str) -> bytes:
    """Return the file that ``save_parameters`` writes."""
    cell, options = make(mx, case_id)
    cell.initialize()
    cell.unroll(STEPS, mx.nd.array(inputs(case_id)["data"]), **options)
    fill(mx, cell)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cell.params"
        cell.save_parameters(str(path))
        return path.read_bytes()


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the graph, repr and results of every case, and the files of some."""
    results: dict[str, np.ndarray] = {}
    for case_id in CASES:
        results[f"{case_id}/graph"] = np.array(describe(mx, graph(mx, case_id)))
        results[f"{case_id}/text"] = np.array(repr(make(mx, case_id)[0]))
        for key, array in compute(mx, case_id).items():
            results[f"{case_id}/{key}"] = array
    for case_id in ("hybrid_stack", "stack_of_both", "zoneout", "projected"):
        results[f"{case_id}/file"] = np.frombuffer(written(mx, case_id), np.uint8)
    return results


def _flat(mx: Any, nested: Any) -> list[Any]:
    if isinstance(nested, (mx.sym.Symbol, mx.nd.NDArray)):
        return [nested]
    return [one for some in nested for one in _flat(mx, some)]
