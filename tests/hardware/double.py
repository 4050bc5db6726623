"""A stand-in for the CUDA runtime, cuBLASLt and cuDNN where there is no GPU.

Device memory is host memory. A stream that captures records its calls with their arguments, and a
graph repeats them. Calls that CUDA refuses during a capture are refused here too, and invalidate
the capture. cuBLASLt's products are computed from their descriptions, so that a wrong leading
dimension or transposition gives a wrong result.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from hardware.headers import Library

__all__ = ["Double"]

_UNSUPPORTED, _INVALIDATED = 900, 901
"""``cudaErrorStreamCaptureUnsupported`` and ``cudaErrorStreamCaptureInvalidated``."""
_NOT_IN_CAPTURES = {"cudaMalloc", "cudaMemcpy", "cudaDeviceSynchronize", "cudaStreamSynchronize"}


class _Numbers(defaultdict[str, int]):
    def __init__(self) -> None:
        super().__init__()
        self._next = count(1)

    def __missing__(self, name: str) -> int:
        return self.setdefault(name, next(self._next))


def _value(of: Any) -> int:
    return int(getattr(of, "value", of) or 0)


def _write(pointer: Any, kind: Any, value: Any) -> None:
    ctypes.cast(pointer, ctypes.POINTER(kind))[0] = value


class Double(Library):
    """All three libraries in one."""

    def __init__(self) -> None:
        self.constants = _Numbers()
        self.asked: list[str] = []
        self._memory: dict[int, Any] = {}
        self._made: dict[int, dict[Any, Any]] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}
        self._capturing: list[Callable[[], None]] | None = None
        self._is_broken = False
        self._handles = count(1000)

    def status(self, name: str, *arguments: Any) -> int:
        """Have the effects of a function that probes can observe."""
        self.asked.append(name)
        if self._capturing is not None and name in _NOT_IN_CAPTURES:
            self._is_broken = True
            return _UNSUPPORTED
        known = getattr(self, f"_{name}", None)
        if known is not None:
            return int(known(*arguments) or 0)
        if "Create" in name:
            handle = next(self._handles)
            self._made[handle] = {"made": arguments[1:]}
            _write(arguments[0], ctypes.c_void_p, handle)
        elif "Get" in name and "Size" in name:
            for pointer in arguments[-2 if "Temp" in name else -1 :]:
                _write(pointer, ctypes.c_size_t, 4096)
        return 0

    def _cudaMalloc(self, pointer: Any, size: int) -> None:
        memory = ctypes.create_string_buffer(size)
        self._memory[ctypes.addressof(memory)] = memory
        _write(pointer, ctypes.c_void_p, ctypes.addressof(memory))

    def _cudaMallocAsync(self, pointer: Any, size: int, stream: Any) -> None:
        self._cudaMalloc(pointer, size)

    def _cudaFree(self, memory: Any) -> None:
        del self._memory[_value(memory)]

    def _cudaMemset(self, memory: Any, value: int, size: int) -> None:
        ctypes.memset(_value(memory), value, size)

    def _cudaMemcpy(self, target: Any, source: Any, size: int, kind: int) -> None:
        ctypes.memmove(_value(target), _value(source), size)

    def _cudaMemcpyAsync(self, target: Any, source: Any, size: int, kind: int, stream: Any) -> None:
        at = _value(target), _value(source)
        self._launch(lambda: ctypes.memmove(*at, size) and None)

    def _launch(self, work: Callable[[], None]) -> None:
        if self._capturing is None:
            work()
        else:
            self._capturing.append(work)

    def _cudaStreamBeginCapture(self, stream: Any, mode: int) -> None:
        self._capturing, self._is_broken = [], False

    def _cudaStreamEndCapture(self, stream: Any, graph: Any) -> int:
        work, self._capturing = self._capturing, None
        if self._is_broken:
            return _INVALIDATED
        handle = next(self._handles)
        self._graphs[handle] = work or []
        _write(graph, ctypes.c_void_p, handle)
        return 0

    def _cudaGraphInstantiate(self, executable: Any, graph: Any, flags: int) -> None:
        _write(executable, ctypes.c_void_p, _value(graph))

    def _cudaGraphLaunch(self, executable: Any, stream: Any) -> None:
        for work in self._graphs[_value(executable)]:
            work()

    def _cublasLtMatmulDescSetAttribute(
        self, description: Any, name: int, value: Any, size: int
    ) -> None:
        kind = ctypes.c_void_p if size == 8 else ctypes.c_int
        self._made[_value(description)][name] = ctypes.cast(value, ctypes.POINTER(kind))[0]

    def _cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> None:
        _write(arguments[-1], ctypes.c_int, 1)

    def _cublasLtMatmul(self, *arguments: Any) -> None:
        _, described, _, a, of_a, b, of_b, _, _, _, out, of_out = arguments[:12]
        said = self._made[_value(described)]
        left, right = (
            self._matrix(of, at).T
            if said[self[f"CUBLASLT_MATMUL_DESC_TRANS{side}"]] == self["CUBLAS_OP_T"]
            else self._matrix(of, at)
            for side, of, at in (("A", of_a, a), ("B", of_b, b))
        )
        target = self._matrix(of_out, out)
        bias = said.get(self["CUBLASLT_MATMUL_DESC_BIAS_POINTER"])
        epilogue = said[self["CUBLASLT_MATMUL_DESC_EPILOGUE"]]

        def work() -> None:
            found = left.astype(np.float64) @ right.astype(np.float64)
            if bias is not None:
                kind = left.dtype
                read = (ctypes.c_char * (len(found) * kind.itemsize)).from_address(bias)
                found += np.frombuffer(read, kind).astype(np.float64)[:, None]
            if epilogue in (self["CUBLASLT_EPILOGUE_RELU"], self["CUBLASLT_EPILOGUE_RELU_BIAS"]):
                found = np.maximum(found, 0)
            target[...] = found

        self._launch(work)

    def _matrix(self, layout: Any, at: Any) -> Any:
        """Return a view of memory as the column-major matrix that a layout describes."""
        kind, rows, columns, leading = self._made[_value(layout)]["made"]
        dtype = np.dtype(np.float16 if kind == self["CUDA_R_16F"] else np.float32)
        size = leading * columns * dtype.itemsize
        content = (ctypes.c_char * size).from_address(_value(at))
        return np.frombuffer(content, dtype).reshape(columns, leading)[:, :rows].T

    def _cudnnGetRNNWeightParams(self, *arguments: Any) -> None:
        _, _, layer, _, space, gate, _, weight, _, bias = arguments
        _write(weight, ctypes.c_void_p, _value(space) + 1024 * layer + 64 * gate)
        _write(bias, ctypes.c_void_p, _value(space) + 1024 * layer + 64 * gate + 32)

    def _cudnnRNNForward(self, *arguments: Any) -> None:
        self._fill(arguments[7])

    def _fill(self, memory: Any) -> None:
        at = _value(memory)
        size = len(self._memory[at])
        self._launch(lambda: ctypes.memset(at, 7, size) and None)

    def _cudnnPoolingForward(self, *arguments: Any) -> None:
        self._fill(arguments[-1])

    _cudnnSoftmaxForward = _cudnnLRNCrossChannelForward = _cudnnPoolingForward
