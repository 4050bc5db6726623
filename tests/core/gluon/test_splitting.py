"""Splitting batches over devices; clipping gradients by their global norm."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.gluon.splitting import clip_global_norm, split_and_load, split_data


def test_batches_are_split_over_devices() -> None:
    data = mx.nd.arange(12).reshape((6, 2))
    parts = split_and_load(data, [mx.cpu(0), mx.cpu(1)])
    assert [part.context for part in parts] == [mx.cpu(0), mx.cpu(1)]
    np.testing.assert_array_equal(parts[1].asnumpy(), [[6, 7], [8, 9], [10, 11]])
    assert [one.shape[0] for one in split_data(data, 4, even_split=False)] == [2, 2, 1, 1]
    assert split_data(data, 2, batch_axis=1)[0].shape == (6, 1)
    with pytest.raises(ValueError, match="cannot be evenly split into 4"):
        split_data(data, 4)
    with pytest.raises(ValueError, match="Too many slices"):
        split_data(data, 7)


def test_global_norm_is_clipped() -> None:
    arrays = [3 * mx.nd.ones((1,)), 4 * mx.nd.ones((1,))]
    assert clip_global_norm(arrays, 10) == 5
    assert clip_global_norm(arrays, 1) == 5
    np.testing.assert_allclose([one.asscalar() for one in arrays], [0.6, 0.8], rtol=1e-6)
    with pytest.warns(UserWarning, match="nan or inf"):
        clip_global_norm([mx.nd.array([np.inf])], 1)


def test_splitting_csr_keeps_the_storage_type() -> None:
    matrix = mx.nd.array([[0, 1], [2, 0], [3, 4]]).tostype("csr")
    parts = mx.gluon.utils.split_data(matrix, 3)
    assert [(part.stype, part.asnumpy().tolist()) for part in parts] == [
        ("csr", [[0, 1]]),
        ("csr", [[2, 0]]),
        ("csr", [[3, 4]]),
    ]
    parts = mx.gluon.utils.split_data(matrix, 2, even_split=False)
    assert [part.shape for part in parts] == [(2, 2), (1, 2)]
    assert {part.stype for part in mx.gluon.utils.split_data(matrix, 2, batch_axis=1)} == {
        "default"
    }


def test_clip_global_norm_without_a_check_returns_an_array() -> None:
    """As in MXNet, which does not wait for the norm to be computed."""
    arrays = [mx.nd.ones((2, 2)) * 2]
    norm = mx.gluon.utils.clip_global_norm(arrays, 1.0, check_isfinite=False)
    assert isinstance(norm, mx.nd.NDArray)
    assert norm.shape == (1,)
    assert norm.asscalar() == 4
    np.testing.assert_allclose(arrays[0].asnumpy(), 0.5, rtol=1e-6)
