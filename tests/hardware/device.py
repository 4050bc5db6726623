"""Memory, streams and graphs of the CUDA runtime, for probes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from hardware.headers import CallError, Library

__all__ = ["RUNTIME", "Device", "array_of"]

RUNTIME = ("libcudart.so*", "cuda_runtime_api.h", "driver_types.h")
_POISON = 0xAB


def array_of(kind: Any, values: Any) -> Any:
    """Return values as a C array."""
    return (kind * len(values))(*values)


class Device:
    """GPU 0, with one stream of its own."""

    def __init__(self, runtime: Library | None = None) -> None:
        self.runtime = runtime or Library(*RUNTIME)
        self.runtime.call("cudaSetDevice", 0)
        flags = self.runtime["cudaStreamNonBlocking"]
        self.stream = self.runtime.made("cudaStreamCreateWithFlags", flags)
        self._sizes: dict[int, int] = {}
        self._kept = 0

    def empty(self, size: int) -> ctypes.c_void_p:
        """Return uninitialized memory filled with a pattern."""
        memory = self.runtime.made("cudaMalloc", max(size, 256))
        assert memory.value is not None
        self._sizes[memory.value] = size
        self.runtime.call("cudaMemset", memory, _POISON, size)
        return memory

    def put(self, values: np.ndarray[Any, Any]) -> ctypes.c_void_p:
        """Return memory with these values."""
        memory = self.empty(values.nbytes)
        self._copy(memory, values.ctypes.data, values.nbytes, "cudaMemcpyHostToDevice")
        return memory

    def get(self, memory: ctypes.c_void_p, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the contents of memory, shaped like another array."""
        values = np.empty_like(like)
        self._copy(values.ctypes.data, memory, values.nbytes, "cudaMemcpyDeviceToHost")
        return values

    def _copy(self, target: Any, source: Any, size: int, kind: str) -> None:
        self.runtime.call("cudaMemcpy", target, source, size, self.runtime[kind])

    def synchronize(self) -> None:
        """Wait for all work to finish."""
        self.runtime.call("cudaDeviceSynchronize")

    def free(self) -> None:
        """Free what was allocated since the device was opened or marked."""
        for address in list(self._sizes)[self._kept :]:
            self.runtime.call("cudaFree", address)
            del self._sizes[address]

    def keep(self) -> None:
        """Exempt what was allocated so far from ``free``."""
        self._kept = len(self._sizes)

    @property
    def is_healthy(self) -> bool:
        """Return whether the device still answers; some errors make the process unusable."""
        try:
            self.synchronize()
            self.put(np.zeros(8, np.uint8))
        except CallError:
            return False
        return True

    def captured(
        self, call: Callable[[], None], memory: ctypes.c_void_p, like: np.ndarray[Any, Any]
    ) -> dict[str, Any]:
        """Run a call directly, then captured and replayed; return whether both write the same
        bytes."""
        call()
        self.synchronize()
        expected = self.get(memory, like)
        found: dict[str, Any] = {"runs": True, "captures": False}
        graph = self._capture(call, found)
        if graph is None:
            return found
        executable = self.runtime.made("cudaGraphInstantiate", graph, 0)
        found["captures"] = True
        replays = []
        for _ in range(2):
            self.runtime.call("cudaMemset", memory, _POISON, like.nbytes)
            self.synchronize()
            self.runtime.call("cudaGraphLaunch", executable, self.stream)
            self.synchronize()
            replays.append(self.get(memory, like).tobytes() == expected.tobytes())
        found["replays"] = all(replays)
        return found

    def _capture(self, call: Callable[[], None], found: dict[str, Any]) -> Any:
        mode = self.runtime["cudaStreamCaptureModeThreadLocal"]
        self.runtime.call("cudaStreamBeginCapture", self.stream, mode)
        try:
            call()
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {error}"
        graph = ctypes.c_void_p()
        status = self.runtime.status("cudaStreamEndCapture", self.stream, ctypes.byref(graph))
        if status:
            name = self.runtime.name_of("cudaStreamEndCapture", status)
            found["error"] = f"{found.get('error', '')} {name}".strip()
        if "error" in found:
            self.runtime.status("cudaGetLastError")
            return None
        return graph
