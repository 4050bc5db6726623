"""Arrays on a GPU behave like those on the CPU."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core import autograd, nd

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(mx.num_gpus() == 0, reason="no CUDA device"),
]

RAW = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_copying_to_the_gpu_and_back() -> None:
    x = nd.array(RAW, ctx=mx.gpu(0))
    assert x.context == mx.gpu(0)
    assert np.array_equal(x.asnumpy(), RAW)
    assert np.array_equal(x.as_in_context(mx.cpu()).asnumpy(), RAW)
    assert np.array_equal(pickle.loads(pickle.dumps(x)).asnumpy(), RAW)


def test_arithmetic_matches_numpy() -> None:
    x = nd.array(RAW, ctx=mx.gpu(0))
    x += 1
    assert np.allclose((x * x / 2 - x).asnumpy(), (RAW + 1) ** 2 / 2 - (RAW + 1))
    with pytest.raises(mx.MXNetError, match="as_in_context"):
        x + nd.ones((2, 3, 4))


@pytest.mark.parametrize("key", [0, (slice(None), 1), (..., slice(None, None, -1)), [1, 0, 1]])
def test_indexing_matches_numpy(key: object) -> None:
    x, expected = nd.array(RAW, ctx=mx.gpu(0)), RAW.copy()
    assert np.array_equal(x[key].asnumpy(), expected[key])
    x[key] = -expected[key]
    expected[key] = -expected[key]
    assert np.array_equal(x.asnumpy(), expected)


def test_gradients_cross_devices() -> None:
    x = nd.array(RAW, ctx=mx.gpu(0))
    x.attach_grad()
    with autograd.record():
        y = nd.tanh(x[0]) * x.as_in_context(mx.cpu()).as_in_context(mx.gpu(0))[1]
    y.backward()
    assert x.grad is not None
    assert np.allclose(x.grad.asnumpy()[1], np.tanh(RAW[0]), atol=1e-6)


def test_saved_arrays_are_loaded_again(tmp_path: Path) -> None:
    nd.save(tmp_path / "x", {"x": nd.array(RAW, ctx=mx.gpu(0))})
    assert np.array_equal(nd.load(tmp_path / "x")["x"].asnumpy(), RAW)


def test_random_numbers_are_the_same_on_every_device() -> None:
    mx.random.seed(5)
    first = nd.random.normal(shape=(100,), ctx=mx.gpu(0)).asnumpy()
    mx.random.seed(5)
    assert np.array_equal(nd.random.normal(shape=(100,), ctx=mx.gpu(0)).asnumpy(), first)


@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
def test_sparse_arrays_stay_on_the_gpu(stype: str) -> None:
    x = nd.array(RAW[0], ctx=mx.gpu(0)).tostype(stype)
    assert x.context == mx.gpu(0)
    assert np.array_equal(x.asnumpy(), RAW[0])
