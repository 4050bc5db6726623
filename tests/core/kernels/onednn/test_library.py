"""oneDNN in a forked process."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core.executor import bind
from core.kernels.onednn import library

LIMIT_SECONDS = 60


def ends_well_in_a_fork(function: Callable[[], Any]) -> bool:
    child = multiprocessing.get_context("fork").Process(target=function, daemon=True)
    with warnings.catch_warnings():
        # Python 3.12 warns about forking with threads running, such as those of BLAS.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    child.join(LIMIT_SECONDS)
    child.kill()
    child.join()
    return child.exitcode == 0


def test_a_forked_process_runs_inherited_and_new_executors() -> None:
    found = library()
    if found is None:
        pytest.skip("oneDNN is not installed")
    data = mx.sym.Convolution(mx.sym.var("data"), num_filter=32, kernel=(3, 3), name="conv")
    symbol = mx.sym.FullyConnected(data, num_hidden=512, name="fc")
    random = np.random.RandomState(2)
    shapes = {"data": (4, 8, 16, 16), "conv_weight": (32, 8, 3, 3), "conv_bias": (32,)}
    shapes |= {"fc_weight": (512, 32 * 14 * 14), "fc_bias": (512,)}
    arrays = {name: mx.nd.array(random.rand(*shape)) for name, shape in shapes.items()}
    gradients = {name: mx.nd.zeros(array.shape) for name, array in arrays.items()}
    head = mx.nd.ones((4, 512))

    def trained(executor: Any) -> list[np.ndarray]:
        (out,) = executor.forward(is_train=True)
        executor.backward(head)
        return [out.asnumpy().copy(), gradients["conv_weight"].asnumpy().copy()]

    def check() -> None:
        again = bind(symbol, mx.cpu(), arrays, gradients)
        for got in (trained(executor), trained(again)):
            for one, wanted in zip(got, expected, strict=True):
                np.testing.assert_array_equal(one, wanted)

    before = found.threads()
    found.set_threads(2)  # also on a machine with a single processor
    try:
        executor = bind(symbol, mx.cpu(), arrays, gradients)
        expected = trained(executor)
        assert ends_well_in_a_fork(check)
        check()
    finally:
        found.set_threads(before)
