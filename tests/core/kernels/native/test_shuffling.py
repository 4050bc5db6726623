"""Shuffling vectors in C gives the order that NumPy's generator gives."""

from __future__ import annotations

import numpy as np
import pytest

from core.kernels.native import is_available
from core.kernels.native.shuffling import shuffle

pytestmark = pytest.mark.skipif(
    not is_available(), reason="the kernels are not compiled, or there is no AVX-512"
)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 1000, 70000])
def test_the_order_is_numpys(count: int, dtype: str) -> None:
    data = np.random.RandomState(3).randint(0, 100, count).astype(dtype)
    for seed in (0, 5, 2**62 + 3):
        order = np.random.Generator(np.random.SFC64(seed)).permutation(count)
        found = data.copy()
        assert shuffle(found, seed)
        np.testing.assert_array_equal(found, data[order])


def test_other_arrays_are_refused_and_not_changed() -> None:
    for other in (np.zeros((2, 2)), np.arange(10)[::2], np.zeros(3, "complex128")):
        before = other.copy()
        assert not shuffle(other, 1)
        np.testing.assert_array_equal(other, before)
