"""Forward and backward of the layers of a network allocate no array.

What an operator needs beside its arrays comes from ``run.scratch``, whose memory a bound plan
keeps; everything else that a second step allocates counts here.
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
from oracle.case import Case, integers, positive
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
)


class KeptScratch:
    """Hands out the same arrays in every step, as a bound plan does."""

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
def test_a_step_allocates_nothing(case: Case) -> None:
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
