"""The CPU: NumPy arrays in 64-byte aligned memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..kernels.chain import Chain
from ..kernels.native.chain import chained
from ..kernels.native.lu import determine, invert
from ..kernels.native.nms import suppress
from ..kernels.native.optimizers import update
from ..kernels.native.shuffling import shuffle
from ..kernels.native.triangular import solve_triangular
from ..kernels.optimizer_steps import FusedStep
from ..types import Array, DType, Shape, shape_size

__all__ = ["NumpyBackend"]

_ALIGNMENT = 64


class NumpyBackend:
    """Arrays in host memory; every logical ``cpu(i)`` shares this one backend."""

    name = "numpy"
    xp: Any = np

    def scope(self) -> AbstractContextManager[Any]:
        """Suppress NumPy's floating point warnings: other devices give inf and NaN silently,
        too."""
        return np.errstate(all="ignore")

    def empty(self, shape: Shape, dtype: DType) -> Array:
        """Return an uninitialised array that starts on a cache line."""
        # NumPy aligns to 16 bytes only, from where each vector of AVX-512 may cross a cache line.
        size = shape_size(shape) * dtype.itemsize
        raw = np.empty(size + _ALIGNMENT, dtype=np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        return raw[start : start + size].view(dtype).reshape(shape)

    def asarray(self, value: Any, dtype: DType | None = None) -> Array:
        """Return a NumPy array; a CuPy array is copied to the host."""
        # By its attributes, because CuPy need not be installed.
        if hasattr(value, "get") and hasattr(value, "__cuda_array_interface__"):
            value = value.get()
        return np.asarray(value, dtype=dtype)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return the array itself."""
        return np.asarray(array)

    def copy_into(self, target: Array, source: Array) -> None:
        """Copy into the target with a cast where dtypes differ."""
        if not isinstance(source, np.ndarray):
            source = self.asarray(source)
        if source.dtype == target.dtype:  # copying cannot overflow, and the scope takes time
            target[...] = source
            return
        with self.scope():
            target[...] = source

    def address(self, array: Array) -> int:
        """Return the address of the first element."""
        return int(array.ctypes.data)

    def synchronize(self) -> None:
        """Do nothing: the CPU has no queue."""

    def release(self) -> None:
        """Do nothing: no freed memory is cached."""

    def memory(self) -> tuple[int, int] | None:
        """Return None: the CPU has no memory separate from the host's."""
        return None

    def chained(self, calls: Sequence[Callable[[], Any]]) -> list[Chain]:
        """Chain consecutive primitives of oneDNN."""
        return chained(calls)

    def update(
        self, weight: Array, gradient: Array, states: Sequence[Array], step: FusedStep
    ) -> bool:
        """Call the C kernel, if it is available."""
        return update(weight, gradient, states, step)

    def shuffle(self, vector: Array, seed: int) -> bool:
        """Call the C kernel, if it is available."""
        return shuffle(vector, seed)

    def solve_triangular(
        self,
        triangle: Array,
        sides: Array,
        out: Array,
        *,
        lower: bool,
        transpose: bool,
        rightside: bool,
    ) -> bool:
        """Call the C kernel, if it is available."""
        return solve_triangular(
            triangle, sides, out, lower=lower, transpose=transpose, rightside=rightside
        )

    def invert(self, matrices: Array, out: Array) -> bool:
        """Call the C kernel, if it is available."""
        return invert(matrices, out)

    def determine(self, matrices: Array) -> tuple[Array, Array] | None:
        """Call the C kernel, if it is available."""
        return determine(matrices)

    def suppress(
        self,
        sides: Sequence[Array],
        classes: Array | None,
        threshold: float,
        includes_threshold: bool,
        most: int,
    ) -> Array | None:
        """Call the C kernel, if it is available."""
        return suppress(sides, classes, threshold, includes_threshold, most)
