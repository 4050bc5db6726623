"""Selecting elements by bit masks, against NumPy's ``where``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.ops.masking import choose, keep
from core.ops.operator import Run

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int64", "bool")


@pytest.fixture
def run() -> Run:
    random: Any = None
    return Run(np, True, random, np.empty)


def drawn(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random bits as numbers of the dtype, NaN and infinity among them."""
    random = np.random.RandomState(seed)
    if dtype == "bool":
        return np.asarray(random.rand(*shape) < 0.5)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(random.bytes(size), dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (300, 333)], ids=str)
def test_matches_numpy(run: Run, dtype: str, shape: tuple[int, ...]) -> None:
    """More than one block, less than one, one element, and none."""
    x, y, mask = drawn(dtype, shape, 1), drawn(dtype, shape, 2), drawn("bool", shape, 3)
    out, kept, inplace = np.empty(shape, dtype), np.empty(shape, dtype), y.copy()
    choose(run, mask, x, y, out)
    choose(run, mask, x, inplace, inplace)
    keep(run, mask, x, kept)
    np.testing.assert_array_equal(out, np.where(mask, x, y))
    np.testing.assert_array_equal(inplace, np.where(mask, x, y))
    np.testing.assert_array_equal(kept, np.where(mask, x, np.zeros_like(x)))


def test_strided_arrays_and_masks_of_rows(run: Run) -> None:
    x, y = drawn("int64", (6, 8), 1)[:, ::2], drawn("int64", (6, 8), 2)[::2]
    out, mask = np.empty((6, 4), "int64"), drawn("bool", (6, 4), 3)
    choose(run, mask, x, out * 0, out)
    np.testing.assert_array_equal(out, np.where(mask, x, 0))
    rows, kept = drawn("bool", (3, 1), 4), np.empty((3, 8), "int64")
    keep(run, rows, y, kept)
    np.testing.assert_array_equal(kept, np.where(rows, y, 0))
