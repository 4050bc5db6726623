"""How a result is compared with a golden array."""

from __future__ import annotations

import numpy as np

__all__ = ["assert_close"]

_TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-9}


def assert_close(
    what: str, got: np.ndarray, expected: np.ndarray, tolerance: float | None = None
) -> None:
    """Compare shape, dtype and every element with what MXNet gave.

    The tolerance is in units of the expected array's largest finite magnitude: correct
    implementations differ in the order of their sums. Integers are equal. The failure shows
    the worst element and both arrays.
    """
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, MXNet {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, MXNet {expected.dtype}"
    if tolerance is None:
        tolerance = _TOLERANCE.get(expected.dtype.name, 0.0)
    ours, mxnet = got.astype("float64"), expected.astype("float64")
    finite = np.isfinite(mxnet)
    np.testing.assert_array_equal(ours[~finite], mxnet[~finite], err_msg=what)
    scale = np.abs(mxnet[finite]).max(initial=0.0) or 1.0
    error = np.zeros(ours.shape)
    np.subtract(ours, mxnet, out=error, where=finite)
    wrong = ~(np.abs(error) <= tolerance * scale)
    if wrong.any():
        worst = np.unravel_index(np.argmax(np.where(wrong, np.abs(error), -1.0)), error.shape)
        raise AssertionError(
            f"{what}: {got[worst]!r} at {tuple(int(i) for i in worst)}, MXNet {expected[worst]!r}; "
            f"{wrong.sum()} of {wrong.size} differ by more than {tolerance:.0e} of the maximum, "
            f"this one by {abs(error[worst]) / scale:.1e}\ngot\n{got}\nMXNet\n{expected}"
        )
