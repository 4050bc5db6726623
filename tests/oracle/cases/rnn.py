"""The fused RNN. Sequence lengths, clipping, and gradients of projections need cuDNN in MXNet;
tests/core/ops/test_rnn.py has them."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, Spec, normal

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def _rnn(
    name: str,
    mode: str,
    steps: int = 4,
    batch: int = 3,
    inputs: int = 5,
    hidden: int = 2,
    layers: int = 1,
    dtype: str = "float32",
    train: bool = True,
    grads: bool = True,
    projected: int = 0,
    **attrs: Any,
) -> Case:
    directions = 2 if attrs.get("bidirectional") else 1
    width = projected or hidden
    columns = inputs + (layers - 1) * directions * width + layers * (width + 2)
    size = directions * (_GATES[mode] * hidden * columns + layers * projected * hidden)
    arrays: dict[str, Spec] = {
        "data": normal(steps, batch, inputs, dtype=dtype),
        "parameters": normal(size, scale=0.5, dtype=dtype),
        "state": normal(layers * directions, batch, width, dtype=dtype),
    }
    if mode == "lstm":
        arrays["state_cell"] = normal(layers * directions, batch, hidden, dtype=dtype)
    if projected:
        attrs["projection_size"] = projected
    settings = {"mode": mode, "state_size": hidden, "num_layers": layers, **attrs}
    # MXNet rounds to float32 in its relu.
    tolerance = 1e-6 if mode == "rnn_relu" and dtype == "float64" else None
    return Case(name, "RNN", settings, arrays, train=train, grads=grads, tolerance=tolerance)


CASES = tuple(
    case
    for mode in _GATES
    for case in (
        _rnn(f"{mode}_plain", mode),
        _rnn(f"{mode}_states", mode, state_outputs=True),
        _rnn(f"{mode}_one_step", mode, steps=1, state_outputs=True),
        _rnn(f"{mode}_layers", mode, layers=3, state_outputs=True),
        _rnn(f"{mode}_bidirectional", mode, bidirectional=True, state_outputs=True),
        _rnn(
            f"{mode}_bidirectional_layers",
            mode,
            layers=3,
            hidden=3,
            bidirectional=True,
            state_outputs=True,
        ),
        _rnn(f"{mode}_bidirectional_plain", mode, layers=2, bidirectional=True),
        _rnn(f"{mode}_wide", mode, steps=6, batch=1, inputs=1, hidden=7),
        _rnn(f"{mode}_inference", mode, layers=2, train=False, state_outputs=True, p=0.5),
        _rnn(
            f"{mode}_float64",
            mode,
            layers=2,
            bidirectional=True,
            state_outputs=True,
            dtype="float64",
        ),
    )
) + tuple(
    _rnn(
        f"lstm_projected_{name}",
        "lstm",
        hidden=4,
        projected=3,
        train=False,
        grads=False,
        state_outputs=True,
        **attrs,
    )
    for name, attrs in (
        ("plain", {}),
        ("layers", {"layers": 3}),
        ("bidirectional", {"layers": 2, "bidirectional": True}),
        ("float64", {"dtype": "float64"}),
    )
)
