"""SciPy's sparse matrices as arrays. SciPy itself is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import backend_of
from ..device import Context, current_context
from ..types import to_dtype
from .sparse_array import CSRNDArray

__all__ = ["csr_from_scipy", "is_scipy_csr"]


def is_scipy_csr(value: Any) -> bool:
    """Return whether a value is a ``scipy.sparse.csr_matrix``, or of a subclass."""
    return any(
        kind.__name__ == "csr_matrix" and kind.__module__.startswith("scipy.sparse")
        for kind in type(value).__mro__
    )


def csr_from_scipy(matrix: Any, ctx: Context | None = None, dtype: Any = None) -> CSRNDArray:
    """Return a ``csr_matrix`` as an array; values of one place are added up."""
    context = ctx or current_context()
    csr = matrix.sorted_indices()
    csr.sum_duplicates()
    kind = to_dtype(csr.dtype if dtype is None else dtype)
    data, indptr, indices = (
        backend_of(context).asarray(np.array(part, dtype=part_dtype))
        for part, part_dtype in ((csr.data, kind), (csr.indptr, "int64"), (csr.indices, "int64"))
    )
    return CSRNDArray(csr.shape, data, (indptr, indices), context)
