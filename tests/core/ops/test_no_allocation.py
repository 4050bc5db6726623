"""Operators used in training allocate no arrays in their forward and backward passes.

What they need besides their arrays comes from ``run.scratch``, whose memory a bound plan keeps; any
other allocation in a second step counts here.
"""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from core.backends import backend_of
from core.device import Context
from core.ops import Run
from core.random import DeviceRandom
from oracle.case import Case, integers, normal, positive
from oracle.run_operator import OperatorRun

_ALLOWED_BYTES = 160 * 1024
"""Views of a step, and the buffers of fixed size (8192 elements an operand) that NumPy's iterator
takes for broadcasting and strided operands. Data and outputs of the cases below are larger."""

CASES = (
    Case(
        "dense",
        "FullyConnected",
        {"num_hidden": 512},
        {"data": (512, 8, 16), "weight": (512, 128), "bias": (512,)},
    ),
    Case(
        "conv_small_maps",
        "Convolution",
        {"kernel": (5, 5), "num_filter": 50, "pad": (1, 1)},
        {"data": (20, 40, 12, 12), "weight": (50, 40, 5, 5), "bias": (50,)},
    ),
    Case(
        "conv_large_maps",
        "Convolution",
        {"kernel": (3, 3), "num_filter": 64},
        {"data": (3, 32, 40, 40), "weight": (64, 32, 3, 3), "bias": (64,)},
    ),
    Case(
        "conv_channels_last",
        "Convolution",
        {"kernel": (3, 3), "num_filter": 64, "layout": "NHWC"},
        {"data": (16, 20, 20, 32), "weight": (64, 3, 3, 32), "bias": (64,)},
    ),
    Case(
        "deconv",
        "Deconvolution",
        {"kernel": (4, 4), "num_filter": 64, "stride": (2, 2), "pad": (1, 1)},
        {"data": (16, 32, 12, 12), "weight": (32, 64, 4, 4)},
    ),
    Case("pool_max", "Pooling", {"kernel": (3, 3), "stride": (2, 2)}, {"data": (16, 32, 25, 25)}),
    Case(
        "pool_avg",
        "Pooling",
        {"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg"},
        {"data": (16, 32, 24, 24)},
    ),
    Case(
        "batch_norm",
        "BatchNorm",
        {"fix_gamma": False},
        {"data": (16, 32, 24, 24), "gamma": (32,), "beta": (32,)},
        aux={"moving_mean": (32,), "moving_var": positive(32)},
    ),
    Case(
        "layer_norm",
        "LayerNorm",
        {},
        {"data": (256, 512), "gamma": (512,), "beta": (512,)},
    ),
    Case("dropout", "Dropout", {"p": 0.3}, {"data": (256, 512)}),
    Case("activation", "Activation", {"act_type": "tanh"}, {"data": (256, 512)}),
    Case("softmax", "softmax", {}, {"data": (256, 512)}),
    Case("log_softmax", "log_softmax", {"temperature": 2.0}, {"data": (256, 512)}),
    Case(
        "softmax_output",
        "SoftmaxOutput",
        {"use_ignore": True, "normalization": "valid"},
        {"data": (256, 512), "label": integers(256, high=512)},
    ),
    Case(
        "regression",
        "LinearRegressionOutput",
        {},
        {"data": (256, 512), "label": (256, 512)},
    ),
    *(
        Case(op, op, {}, {"data": positive(256, 512)})
        for op in ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "square", "abs", "erf")
    ),
    *(
        Case(op, op, {}, {"lhs": positive(256, 512), "rhs": positive(256, 512)})
        for op in ("elemwise_add", "elemwise_mul", "elemwise_div", "_maximum", "_power", "_mod")
    ),
    *(
        Case(op, op, {}, {"lhs": positive(256, 512), "rhs": positive(1, 512)})
        for op in ("broadcast_add", "broadcast_mul", "broadcast_div", "broadcast_maximum")
    ),
    *(
        Case(op, op, {"scalar": 2.0}, {"data": positive(256, 512)})
        for op in ("_plus_scalar", "_rminus_scalar", "_mul_scalar", "_power_scalar", "smooth_l1")
    ),
    Case("clip", "clip", {"a_min": 0, "a_max": 1}, {"data": (256, 512)}),
    Case("add_n", "add_n", {}, {f"arg{i}": (256, 512) for i in range(3)}, positional=True),
    Case("reshape", "Reshape", {"shape": (0, -4, 2, -1)}, {"data": (256, 512)}),
    Case("transpose", "transpose", {"axes": (1, 0, 2)}, {"data": (64, 32, 64)}),
    Case("concat", "Concat", {}, {"arg0": (256, 512), "arg1": (256, 64)}, positional=True),
    Case("split", "SliceChannel", {"num_outputs": 4}, {"data": (256, 512)}),
    Case("slice_axis", "slice_axis", {"axis": 1, "begin": 4, "end": None}, {"data": (256, 512)}),
    Case(
        "pad",
        "Pad",
        {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 1, 1, 1)},
        {"data": (8, 16, 32, 32)},
    ),
    Case(
        "upsampling",
        "UpSampling",
        {"scale": 2, "sample_type": "nearest"},
        {"arg0": (8, 16, 32, 32)},
        positional=True,
    ),
    Case("tile", "tile", {"reps": (2, 3)}, {"data": (256, 512)}),
    Case(
        "where",
        "where",
        {},
        {"condition": integers(256, 512, high=2), "x": (256, 512), "y": (256, 512)},
    ),
    Case("round", "round", {}, {"data": (256, 512)}, grads=False),
    Case("argmax", "argmax", {"axis": 1}, {"data": (256, 1024)}, grads=False),
    *(
        Case(op, op, {"axis": 1}, {"data": (256, 1024)})
        for op in ("sum", "mean", "max", "nansum", "norm")
    ),
    Case("dot", "dot", {}, {"lhs": (256, 512), "rhs": (512, 256)}),
    Case(
        "batch_dot",
        "batch_dot",
        {"transpose_b": True},
        {"lhs": (16, 64, 128), "rhs": (16, 64, 128)},
    ),
    Case(
        "embedding",
        "Embedding",
        {"input_dim": 1000, "output_dim": 128},
        {"data": integers(64, 32, high=1000), "weight": (1000, 128)},
    ),
    Case("pick", "pick", {}, {"data": (2048, 64), "index": integers(2048, high=64)}),
    *(
        Case(
            op,
            op,
            {"use_sequence_length": True},
            {"data": (32, 64, 64), "sequence_length": integers(64, low=1, high=33)},
        )
        for op in ("SequenceMask", "SequenceLast", "SequenceReverse")
    ),
    *(
        Case(
            f"rnn_{mode}",
            "RNN",
            {
                "mode": mode,
                "state_size": 64,
                "num_layers": 3,
                "bidirectional": True,
                "p": 0.5,
                "use_sequence_length": has_lengths,
            },
            {
                "data": (20, 32, 64),
                "parameters": normal(gates * 66304, scale=0.1),
                "state": (6, 32, 64),
                **({"state_cell": (6, 32, 64)} if mode == "lstm" else {}),
                **({"sequence_length": integers(32, low=1, high=20)} if has_lengths else {}),
            },
        )
        for mode, gates, has_lengths in (
            ("lstm", 4, False),
            ("gru", 3, True),
            ("rnn_tanh", 1, False),
        )
    ),
)


class KeptScratch:
    """Hands out the same arrays on every step, like a bound plan."""

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self.start()

    def start(self) -> None:
        """Begin a step."""
        self._next = itertools.count()

    def __call__(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        position = next(self._next)
        if position == len(self.kept):
            self.kept.append(backend_of(Context("cpu", 0)).empty(shape, dtype))
        array = self.kept[position]
        assert (array.shape, array.dtype) == (shape, dtype)
        return array


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_a_repeated_step_allocates_nothing(case: Case) -> None:
    prepared = OperatorRun.prepare(case)
    grads = [
        np.empty_like(x) if i in prepared.gradient_indices() else None
        for i, x in enumerate(prepared.inputs)
    ]
    scratch = KeptScratch()
    run = Run(np, case.train, DeviceRandom(Context("cpu", 0), 7), scratch)

    def step() -> None:
        scratch.start()
        prepared.operator.forward(run, prepared.inputs, prepared.outputs)
        if case.has_backward:
            prepared.operator.backward(
                run, prepared.heads, prepared.inputs, prepared.outputs, grads
            )

    step()
    tracemalloc.start()
    try:
        step()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < _ALLOWED_BYTES
