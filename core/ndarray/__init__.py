"""Arrays as scripts see them (``mx.nd``).

Besides what is listed here, every operator is a function of this module, made when first asked for.
"""

from __future__ import annotations

import sys

from ..backends import backend_of, gpu_count
from ..device import Context
from ..ops.namespace import PUBLIC, OperatorNamespace
from . import _internal as _internal
from . import contrib, image, linalg, ndarray, op, random, sparse
from .array import invoke
from .cached_op import CachedOp
from .casting import cast_storage
from .creation import array
from .functions import make_function
from .ndarray import *  # noqa: F403 - all that MXNet has under that path
from .ndarray import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX
from .serialization import load, load_frombuffer, save
from .sparse_array import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
)

__all__ = [
    "_DTYPE_MX_TO_NP",
    "_DTYPE_NP_TO_MX",
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
    if "cupy" not in sys.modules:
        return  # no device but the processor has been used
    for number in range(gpu_count()):
        backend_of(Context("gpu", number)).synchronize()


_operators = OperatorNamespace(__name__, PUBLIC, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
