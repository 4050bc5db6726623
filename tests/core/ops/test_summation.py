"""Sums of float32 are as exact as MXNet's, which add with compensation, along every axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.backends import backend_of
from core.device import Context
from core.ops import Run
from core.ops.summation import add_up, average, sum_to
from core.random import DeviceRandom

ULP = 2.0**-23
"""The spacing of float32 numbers between 1 and 2."""


def _run() -> Run:
    backend = backend_of(Context("cpu", 0))
    return Run(backend.xp, True, DeviceRandom(Context("cpu", 0), 7), backend.empty)


def _positive(*shape: int) -> Any:
    """Return numbers of one sign, whose sum has as many exact digits as their additions."""
    return np.random.RandomState(3).random_sample(shape).astype("float32")


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4096, 512), 0),
        ((4099, 33), (0,)),
        ((100003, 3), 0),
        ((20000, 1), 0),
        ((8, 1024, 64), (0, 1)),
        ((8, 1024, 64), 1),
        ((8, 1027, 5), (0, 1)),
        ((64, 3, 20, 20), (0, 2, 3)),
        ((3000, 2, 2), (0, 2)),
        ((300, 7), (0, 1)),
        ((7, 300), -1),
        ((5, 1, 7), (0, 1)),
    ],
)
def test_sums_are_exact_along_any_axis(shape: Any, axes: Any, keepdims: bool) -> None:
    x = _positive(*shape)
    before = x.copy()
    exact = x.astype("float64").sum(axis=axes, keepdims=keepdims)
    out = np.empty_like(exact, dtype="float32")
    add_up(_run(), x, axes, out)
    assert np.abs(out / exact - 1).max() < 2 * ULP
    average(_run(), x, axes, out)
    assert np.abs(out / (exact * exact.size / x.size) - 1).max() < 3 * ULP
    np.testing.assert_array_equal(x, before)


def test_sums_of_strided_arrays_are_exact() -> None:
    x = _positive(4096, 40)[::2, ::-3]
    for view in (x, x.T):
        for axis in (0, 1):
            exact = view.astype("float64").sum(axis=axis)
            out = np.empty(exact.shape, "float32")
            add_up(_run(), view, axis, out)
            assert np.abs(out / exact - 1).max() < 2 * ULP


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32"])
def test_other_dtypes_are_added_up_in_their_own_or_in_float32(dtype: str) -> None:
    x = np.ones((4096, 3), dtype)
    out = np.empty((3,), dtype)
    add_up(_run(), x, 0, out)
    assert out.tolist() == [np.full(4096, 1).sum().astype(dtype)] * 3  # int8 wraps around
    if dtype != "int8":
        average(_run(), x, 0, out)
        assert out.tolist() == [1, 1, 1]


def test_gradients_of_broadcasting_are_exact() -> None:
    x = _positive(4096, 64)
    for shape in ((64,), (1, 64), (1, 1)):
        out = np.empty(shape, "float32")
        sum_to(_run(), x, out)
        exact = x.astype("float64").sum(axis=0 if len(out.ravel()) > 1 else None)
        assert np.abs(out / exact - 1).max() < 4 * ULP
    out = np.empty((4096, 64), "float32")
    sum_to(_run(), x, out)
    np.testing.assert_array_equal(out, x)


def test_infinities_and_nan_stay() -> None:
    x = _positive(1000, 3)
    x[500] = [np.inf, -np.inf, np.nan]
    out = np.empty(3, "float32")
    add_up(_run(), x, 0, out)
    np.testing.assert_array_equal(out, [np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", ["sum", "nansum", "mean", "norm"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((4096, 512), 0), ((4099, 33), 0), ((8, 4096, 16), (0, 1)), ((3, 1000, 20), 1)],
)
def test_graphs_add_up_as_exactly(name: str, shape: tuple[int, ...], axis: Any) -> None:
    """By kernels too, which add up windows of rows."""
    x = _positive(*shape)
    values = x.astype("float64")
    exact = values.mean(axis) if name == "mean" else values.sum(axis)
    if name == "norm":
        exact = np.sqrt((values**2).sum(axis))
    symbol = getattr(mx.sym, name)(mx.sym.Variable("x"), axis=axis)
    (out,) = symbol.eval(x=mx.nd.array(x))
    assert np.abs(out.asnumpy() / exact - 1).max() < 6 * ULP
