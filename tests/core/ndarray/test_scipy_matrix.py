"""Arrays made from SciPy's ``csr_matrix``.

SciPy is not installed here; a class of the same name and attributes stands in for it.
"""

from __future__ import annotations

import numpy as np
import pytest

import core as mx


class csr_matrix:
    """Duplicate entries and unsorted columns, both of which SciPy allows."""

    def __init__(self) -> None:
        self.shape, self.dtype = (2, 5), np.dtype("float64")
        self.data, self.indices = np.array([1.0, 2.0, 3.0]), np.array([3, 1, 1], np.int32)
        self.indptr = np.array([0, 3, 3], np.int32)

    def tocsr(self) -> csr_matrix:
        return self

    def sorted_indices(self) -> csr_matrix:
        ordered = csr_matrix()
        ordered.data, ordered.indices = np.array([2.0, 3.0, 1.0]), np.array([1, 1, 3], np.int32)
        return ordered

    def sum_duplicates(self) -> None:
        self.data, self.indices = np.array([5.0, 1.0]), np.array([1, 3], np.int32)
        self.indptr = np.array([0, 2, 2], np.int32)


csr_matrix.__module__ = "scipy.sparse._csr"

EXPECTED = [[0, 5, 0, 1, 0], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize("make", [mx.nd.array, mx.nd.sparse.array])
def test_a_matrix_becomes_csr(make) -> None:
    got = make(csr_matrix())
    assert (got.stype, got.dtype, got.shape) == ("csr", np.float64, (2, 5))
    assert got.asnumpy().tolist() == EXPECTED
    assert got.indices.asnumpy().tolist() == [1, 3]
    assert make(csr_matrix(), dtype="float16").dtype == np.float16
    got.check_format()


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: [m], lambda m: {"data": m}])
def test_iterators_take_it(wrap) -> None:
    (batch,) = mx.io.NDArrayIter(wrap(csr_matrix()), batch_size=2, last_batch_handle="discard")
    assert batch.data[0].stype == "csr"
    assert batch.data[0].asnumpy().tolist() == EXPECTED


def test_other_matrices_are_refused() -> None:
    class csc_matrix(csr_matrix.__mro__[1]):
        pass

    csc_matrix.__module__ = "scipy.sparse._csc"
    with pytest.raises(TypeError, match="got csc_matrix"):
        mx.nd.array(csc_matrix())
