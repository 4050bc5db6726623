"""Embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .library import library, loaded, pointer, threads

__all__ = ["embedding"]

_TYPES = {np.dtype("float32"): 0, np.dtype("int32"): 1, np.dtype("int64"): 2}
"""Types of row numbers, as in ``embedding.c``."""


class _Embedding(Kernel):
    """Copies a row of the weight for each element of the data.

    Args:
        data: the numbers of the rows.
        weight: the rows.
    """

    name = "native:embedding"
    inplace = ()
    uses_scratch = False

    def __init__(self, data: TensorSpec, weight: TensorSpec) -> None:
        rows, columns = weight.shape
        self._sizes = (math.prod(data.shape), rows, columns * weight.dtype.itemsize)
        self._type = _TYPES[data.dtype]

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that copies."""
        data, weight = arrays.inputs
        return partial(
            loaded().embedding,
            *self._sizes,
            self._type,
            pointer(data),
            pointer(weight),
            pointer(arrays.outputs[0]),
            threads(),
        )


def embedding(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the forward pass."""
    data, weight = request.inputs
    if library() is None or data is None or weight is None or data.dtype not in _TYPES:
        return None
    return _Embedding(data, weight) if math.prod((*data.shape, *weight.shape)) else None
