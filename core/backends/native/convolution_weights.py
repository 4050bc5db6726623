"""Transformed weights: cached as long as the weights do not change, or computed for each pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...types import Array
from ..kernels import KernelArrays, KernelResources
from ..onednn.kernel import present
from .library import Problem, loaded, pointer

__all__ = ["Weights"]

_PLACES = 16
"""Elements of a transformed 4x4 tile; each has a separate matrix of weights."""
_WEIGHT = 1
"""Position of the weights among a convolution's inputs."""


class Weights:
    """The weights of a convolution in the form that its kernel reads.

    Args:
        problem: the convolution.
        is_kept: whether the plan caches them, which requires a version; otherwise they are
            transformed into the first ``scratch_bytes`` of the scratchpad.
        is_turned: whether the convolution computes the data's gradient, for which kernels are
            rotated by 180 degrees.

    Attributes:
        nbytes: their size.
    """

    def __init__(self, problem: Problem, *, is_kept: bool, is_turned: bool = False) -> None:
        self._is_kept, self._is_turned = is_kept, is_turned
        itemsize = np.dtype("float32").itemsize
        self.nbytes = int(_PLACES * problem.inputs * problem.outputs * itemsize)
        self.scratch_bytes = 0 if is_kept else self.nbytes

    def bind(
        self,
        arrays: KernelArrays,
        resources: KernelResources,
        calls: list[Callable[[], Any]],
    ) -> Array:
        """Return their memory; a call that must precede the convolution is added to ``calls``."""
        weight = present(arrays.inputs[_WEIGHT])
        if self._is_kept:
            key = ("winograd", self._is_turned)
            make = partial(self.transform, weight)
            return resources.keep(key, (_WEIGHT,), self.nbytes, make)
        target = present(resources.scratchpad)[: self.nbytes]
        calls.append(self._call(weight, target))
        return target

    def transform(self, weight: Array, target: Array) -> None:
        """Transform weights of shape ``(outputs, inputs, 3, 3)`` into bytes."""
        self._call(weight, target)()

    def _call(self, weight: Array, target: Array) -> Callable[[], Any]:
        shape = weight.shape[:2]
        places = pointer(weight), pointer(target)
        return partial(loaded().winograd_transform_weights, *shape, self._is_turned, *places)
