"""Arrays as scripts see them (``mx.nd``).

Besides what is listed here, every operator is a function of this module, made when first asked for.
"""

from __future__ import annotations

from core.backends import backend_of, gpu_count
from core.device import Context
from core.ndarray import _internal as _internal
from core.ndarray import contrib, image, linalg, op, random, sparse
from core.ndarray.array import NDArray, invoke
from core.ndarray.binary import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    subtract,
    true_divide,
)
from core.ndarray.cached_op import CachedOp
from core.ndarray.counting import histogram, onehot_encode
from core.ndarray.creation import (
    arange,
    array,
    concatenate,
    empty,
    eye,
    from_numpy,
    full,
    linspace,
    moveaxis,
    ones,
    split_v2,
    zeros,
)
from core.ndarray.dlpack import from_dlpack, to_dlpack_for_read, to_dlpack_for_write
from core.ndarray.functions import make_function
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
    "NDArray",
    "RowSparseNDArray",
    "add",
    "arange",
    "array",
    "cast_storage",
    "concatenate",
    "contrib",
    "divide",
    "empty",
    "equal",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "greater",
    "greater_equal",
    "histogram",
    "image",
    "invoke",
    "lesser",
    "lesser_equal",
    "linalg",
    "linspace",
    "load",
    "load_frombuffer",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "modulo",
    "moveaxis",
    "multiply",
    "not_equal",
    "onehot_encode",
    "ones",
    "op",
    "power",
    "random",
    "save",
    "sparse",
    "split_v2",
    "subtract",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "true_divide",
    "waitall",
    "zeros",
]


def waitall() -> None:
    """Wait until all devices have computed what was asked of them."""
    for number in range(gpu_count()):
        backend_of(Context("gpu", number)).synchronize()


_operators = OperatorNamespace(__name__, PUBLIC, make_function)
__getattr__, __dir__ = _operators.get, _operators.names
