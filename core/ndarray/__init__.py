"""Arrays as scripts see them (``mx.nd``).

Besides what is listed here, every operator is a function of this module, made when first asked for.
"""

from __future__ import annotations

from core.backends import backend_of, gpu_count
from core.device import Context
from core.ndarray import _internal as _internal
from core.ndarray import contrib, image, linalg, ndarray, op, random, sparse
from core.ndarray.array import invoke
from core.ndarray.cached_op import CachedOp
from core.ndarray.creation import array
from core.ndarray.functions import make_function
from core.ndarray.ndarray import *  # noqa: F403 - all that MXNet has under that path
from core.ndarray.serialization import load, load_frombuffer, save
from core.ndarray.sparse_array import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
    cast_storage,
)
from core.ops.namespace import PUBLIC, OperatorNamespace

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "CachedOp",
    "RowSparseNDArray",
    "array",
    "cast_storage",
    "contrib",
    "image",
    "invoke",
    "linalg",
    "load",
    "load_frombuffer",
    "op",
    "random",
    "save",
    "sparse",
    "waitall",
]
__all__ += ndarray.__all__


def waitall() -> None:
    """Wait until all devices have computed what was asked of them."""
    for number in range(gpu_count()):
        backend_of(Context("gpu", number)).synchronize()


_operators = OperatorNamespace(__name__, PUBLIC, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
