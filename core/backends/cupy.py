"""NVIDIA GPUs: CuPy arrays. CuPy is imported only when a GPU is used or asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..errors import DeviceError
from ..kernels.chain import Chain
from ..kernels.cuda.optimizers import update
from ..kernels.optimizer_steps import FusedStep
from ..types import Array, DType, Shape

__all__ = ["CupyBackend", "gpu_count"]


def _import_cupy() -> Any:
    # Not at the top, because CuPy is an optional extra.
    try:
        import cupy
    except ImportError:
        raise DeviceError(
            "gpu contexts need CuPy; install the extra with: pip install 'modserve[gpu]'"
        ) from None
    return cupy


def gpu_count() -> int:
    """Return the number of usable CUDA devices, 0 without CuPy or driver."""
    try:
        cupy = _import_cupy()
        # Without a driver getDeviceCount raises; is_available says so.
        return int(cupy.cuda.runtime.getDeviceCount()) if cupy.is_available() else 0
    except DeviceError:
        return 0


class CupyBackend:
    """Arrays in the memory of one CUDA device."""

    name = "cupy"

    def __init__(self, device_id: int) -> None:
        cupy = _import_cupy()
        count = gpu_count()
        if device_id >= count:
            raise DeviceError(f"gpu({device_id}) does not exist; {count} CUDA devices are usable")
        self.xp: Any = cupy
        self.device = cupy.cuda.Device(device_id)

    def scope(self) -> AbstractContextManager[Any]:
        """Make this the current device within the block."""
        scope: AbstractContextManager[Any] = self.device
        return scope

    def empty(self, shape: Shape, dtype: DType) -> Array:
        """Return an uninitialised device array."""
        with self.device:
            return self.xp.empty(shape, dtype)

    def asarray(self, value: Any, dtype: DType | None = None) -> Array:
        """Return an array on this device; anything else is copied to it."""
        with self.device:
            return self.xp.asarray(value, dtype=dtype)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a NumPy copy."""
        return np.asarray(self.xp.asnumpy(array))

    def copy_into(self, target: Array, source: Array) -> None:
        """Copy from the host or another device into the target."""
        with self.device:
            if isinstance(source, np.ndarray) and source.dtype == target.dtype:
                # Straight into the target; `asarray` would allocate a copy on the device first.
                target.set(np.ascontiguousarray(source).reshape(target.shape))
            else:
                self.xp.copyto(target, self.xp.asarray(source), casting="unsafe")

    def address(self, array: Array) -> int:
        """Return the device address of the first element."""
        return int(array.data.ptr)

    def synchronize(self) -> None:
        """Wait for the device's current stream."""
        with self.device:
            self.xp.cuda.get_current_stream().synchronize()

    def release(self) -> None:
        """Free the unused blocks of the memory pool."""
        with self.device:
            self.xp.get_default_memory_pool().free_all_blocks()

    def memory(self) -> tuple[int, int] | None:
        """Return (used, total) bytes of the device."""
        free, total = self.device.mem_info
        return total - free, total

    def chained(self, calls: Sequence[Callable[[], Any]]) -> list[Chain]:
        """Return each step as a chain of its own."""
        return [Chain(call) for call in calls]

    def update(
        self, weight: Array, gradient: Array, states: Sequence[Array], step: FusedStep
    ) -> bool:
        """Take a step by one kernel; return False for arrays that it does not take."""
        with self.device:
            return update(weight, gradient, states, step)

    def shuffle(self, vector: Array, seed: int) -> bool:
        """Return False: there is no kernel."""
        return False

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
        """Return False: this backend has no kernel."""
        return False

    def invert(self, matrices: Array, out: Array) -> bool:
        """Return False: this backend has no kernel."""
        return False

    def determine(self, matrices: Array) -> tuple[Array, Array] | None:
        """Return None: this backend has no kernel."""
        return None

    def suppress(
        self,
        sides: Sequence[Array],
        classes: Array | None,
        threshold: float,
        includes_threshold: bool,
        most: int,
    ) -> Array | None:
        """Return None: this backend has no kernel."""
        return None
