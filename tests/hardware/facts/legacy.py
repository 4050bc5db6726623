"""Calls of cuDNN's older interface, and of the runtime, in a capture."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from hardware.device import Device, array_of
from hardware.headers import Library

__all__ = ["FUNCTIONS", "LIBRARY", "Probe", "cases", "tensor"]

LIBRARY = ("libcudnn.so*", "cudnn_graph.h", "cudnn_ops.h", "cudnn_adv.h")
FUNCTIONS = (
    *("cudnnCreate", "cudnnSetStream", "cudnnCreateTensorDescriptor", "cudnnSetTensorNdDescriptor"),
    *("cudnnCreatePoolingDescriptor", "cudnnSetPooling2dDescriptor", "cudnnPoolingForward"),
    *("cudnnCreateLRNDescriptor", "cudnnSetLRNDescriptor", "cudnnLRNCrossChannelForward"),
    "cudnnSoftmaxForward",
)
_SHAPE = (2, 8, 6, 6)


def cases() -> list[dict[str, Any]]:
    """Return the calls to try."""
    names = ("pooling", "softmax", "lrn", "copy_on_device", "copy_pageable", "allocate")
    return [{"call": name} for name in (*names, "allocate_async", "synchronize")]


def tensor(library: Library, kind: int, shape: tuple[int, ...]) -> ctypes.c_void_p:
    """Return the descriptor of a tensor whose last axis is contiguous."""
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    made = library.made("cudnnCreateTensorDescriptor")
    dims = array_of(ctypes.c_int, shape), array_of(ctypes.c_int, strides)
    library.call("cudnnSetTensorNdDescriptor", made, kind, len(shape), *dims)
    return made


class Probe:
    """Makes each call directly and in a capture."""

    def __init__(self, device: Device) -> None:
        self._device, self._library = device, Library(*LIBRARY)
        self._handle = self._library.made("cudnnCreate")
        self._library.call("cudnnSetStream", self._handle, device.stream)
        self._x = np.random.default_rng(0).standard_normal(_SHAPE).astype(np.float32)
        self._source, self._target = device.put(self._x), device.empty(self._x.nbytes)
        self._of_x = tensor(self._library, self._library["CUDNN_DATA_FLOAT"], _SHAPE)

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Try one call."""
        call, like = getattr(self, f"_{case['call']}")()
        return self._device.captured(call, self._target, like)

    def _of_cudnn(self, name: str, *first: Any, out: tuple[int, ...] = _SHAPE) -> Any:
        library, one, zero = self._library, ctypes.c_float(1), ctypes.c_float(0)
        of_y = tensor(library, library["CUDNN_DATA_FLOAT"], out)
        sides = (
            ctypes.byref(one),
            self._of_x,
            self._source,
            ctypes.byref(zero),
            of_y,
            self._target,
        )
        return lambda: library.call(name, self._handle, *first, *sides), np.empty(out, np.float32)

    def _pooling(self) -> Any:
        library = self._library
        made = library.made("cudnnCreatePoolingDescriptor")
        kind = library["CUDNN_POOLING_MAX_DETERMINISTIC"], library["CUDNN_PROPAGATE_NAN"]
        library.call("cudnnSetPooling2dDescriptor", made, *kind, 2, 2, 0, 0, 2, 2)
        return self._of_cudnn("cudnnPoolingForward", made, out=(2, 8, 3, 3))

    def _softmax(self) -> Any:
        kinds = self._library["CUDNN_SOFTMAX_ACCURATE"], self._library["CUDNN_SOFTMAX_MODE_CHANNEL"]
        return self._of_cudnn("cudnnSoftmaxForward", *kinds)

    def _lrn(self) -> Any:
        made = self._library.made("cudnnCreateLRNDescriptor")
        self._library.call("cudnnSetLRNDescriptor", made, 5, 1e-4, 0.75, 2.0)
        mode = self._library["CUDNN_LRN_CROSS_CHANNEL_DIM1"]
        return self._of_cudnn("cudnnLRNCrossChannelForward", made, mode)

    def _copies(self, source: Any, kind: str) -> tuple[Callable[[], None], Any]:
        runtime, size = self._device.runtime, self._x.nbytes
        arguments = self._target, source, size, runtime[kind], self._device.stream
        return lambda: runtime.call("cudaMemcpyAsync", *arguments), self._x

    def _copy_on_device(self) -> Any:
        return self._copies(self._source, "cudaMemcpyDeviceToDevice")

    def _copy_pageable(self) -> Any:
        return self._copies(self._x.ctypes.data, "cudaMemcpyHostToDevice")

    def _then_copies(self, name: str, *arguments: Any) -> Any:
        copy, like = self._copy_on_device()
        runtime, made = self._device.runtime, ctypes.c_void_p()
        first = (ctypes.byref(made),) if "Malloc" in name else ()

        def call() -> None:
            runtime.call(name, *first, *arguments)
            copy()

        return call, like

    def _allocate(self) -> Any:
        return self._then_copies("cudaMalloc", 4096)

    def _allocate_async(self) -> Any:
        return self._then_copies("cudaMallocAsync", 4096, self._device.stream)

    def _synchronize(self) -> Any:
        return self._then_copies("cudaStreamSynchronize", self._device.stream)
