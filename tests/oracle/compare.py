"""Comparing a result with a golden array."""

from __future__ import annotations

import numpy as np

__all__ = ["assert_close"]

_TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-9}


def assert_close(
    what: str, got: np.ndarray, expected: np.ndarray, tolerance: float | None = None
) -> None:
    """Compare shape, dtype and every element with what MXNet gave.

    An element may differ by the tolerance times its own magnitude and the root mean square of its
    channel: correct implementations differ in the order of their sums, which shows where terms
    cancel, but a wrong channel must not hide behind a larger one. So where MXNet gave a channel of
    zeros, zeros are expected. Only subnormal numbers equal 0 in every channel, because some of
    MXNet's kernels replace them by it. Integers are equal. The failure shows the worst element and
    both arrays.
    """
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, MXNet {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, MXNet {expected.dtype}"
    if tolerance is None:
        tolerance = _TOLERANCE.get(expected.dtype.name, 0.0)
    ours, mxnet = got.astype("float64"), expected.astype("float64")
    finite = np.isfinite(mxnet)
    np.testing.assert_array_equal(ours[~finite], mxnet[~finite], err_msg=what)
    scale = np.abs(np.where(finite, mxnet, 0.0)) + _channel_scale(mxnet, finite)
    error = np.zeros(ours.shape)
    np.subtract(ours, mxnet, out=error, where=finite)
    if expected.dtype.kind == "f":
        error[np.abs(error) < np.finfo(expected.dtype).smallest_normal] = 0.0
    relative = np.abs(error) / np.where(scale > 0, scale, np.finfo("float64").tiny)
    wrong = ~(relative <= tolerance)
    if wrong.any():
        worst = np.unravel_index(np.argmax(np.where(wrong, relative, -1.0)), error.shape)
        raise AssertionError(
            f"{what}: {got[worst]!r} at {tuple(int(i) for i in worst)}, MXNet {expected[worst]!r}; "
            f"{wrong.sum()} of {wrong.size} differ by more than {tolerance:.0e} of themselves and "
            f"their channel, this one by {relative[worst]:.1e}\ngot\n{got}\nMXNet\n{expected}"
        )


def _channel_scale(values: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Return the root mean square of the finite values of each channel, the second axis.

    A vector is one channel.
    """
    axes = tuple(i for i in range(values.ndim) if i != 1)
    squares = np.sum(np.where(finite, values, 0.0) ** 2, axis=axes, keepdims=True)
    count = np.sum(finite, axis=axes, keepdims=True)
    return np.sqrt(squares / np.maximum(count, 1))
