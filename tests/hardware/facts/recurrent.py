"""Where cuDNN's recurrent layers keep their weights, and whether they can be captured."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import numpy as np

from hardware.device import Device, array_of
from hardware.facts.legacy import LIBRARY, tensor
from hardware.headers import Library

__all__ = ["FUNCTIONS", "LIBRARY", "Probe", "cases"]

FUNCTIONS = (
    *("cudnnCreate", "cudnnSetStream", "cudnnCreateRNNDescriptor", "cudnnSetRNNDescriptor_v8"),
    *("cudnnCreateDropoutDescriptor", "cudnnSetDropoutDescriptor", "cudnnGetRNNWeightSpaceSize"),
    *("cudnnGetRNNWeightParams", "cudnnCreateRNNDataDescriptor", "cudnnSetRNNDataDescriptor"),
    *("cudnnGetRNNTempSpaceSizes", "cudnnRNNForward", "cudnnGetTensorNdDescriptor"),
)
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_TYPES = {"float32": "CUDNN_DATA_FLOAT", "float16": "CUDNN_DATA_HALF"}
_STEPS, _BATCH, _INPUT = 5, 3, 7
_PADDED = 1  # CUDNN_RNN_PADDED_IO_ENABLED, a macro that is not a plain number


def cases() -> list[dict[str, Any]]:
    """Return the layers to try."""
    names = ("mode", "layers", "directions", "hidden", "type")
    every = product(_GATES, (1, 2), (1, 2), (8, 33), _TYPES)
    return [dict(zip(names, one, strict=True)) for one in every]


class Probe:
    """Runs recurrent layers."""

    def __init__(self, device: Device) -> None:
        self._device, self._library = device, Library(*LIBRARY)
        self._handle = self._library.made("cudnnCreate")
        self._library.call("cudnnSetStream", self._handle, device.stream)

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Query the offsets of all weights, in elements, and run the layer."""
        library, device = self._library, self._device
        layer = self._layer(case)
        size = library.size("cudnnGetRNNWeightSpaceSize", self._handle, layer)
        space = device.empty(size)
        itemsize = 4 if case["type"] == "float32" else 2
        offsets = [
            {"pseudo_layer": number, "gate": gate}
            | self._place(layer, number, gate, size, space, itemsize)
            for number in range(case["layers"] * case["directions"])
            for gate in range(2 * _GATES[case["mode"]])
        ]
        zeros = np.zeros(size // itemsize, np.float32 if itemsize == 4 else np.float16)
        weights = device.put(zeros + zeros.dtype.type(0.01))
        return {"weights": size // itemsize, "offsets": offsets} | self._forward(
            case, layer, weights, size, zeros.dtype
        )

    def _layer(self, case: dict[str, Any]) -> ctypes.c_void_p:
        library = self._library
        dropout = library.made("cudnnCreateDropoutDescriptor")
        library.call("cudnnSetDropoutDescriptor", dropout, self._handle, 0.0, None, 0, 0)
        layer = library.made("cudnnCreateRNNDescriptor")
        both = "BIDIRECTIONAL" if case["directions"] == 2 else "UNIDIRECTIONAL"
        library.call(
            *("cudnnSetRNNDescriptor_v8", layer, library["CUDNN_RNN_ALGO_STANDARD"]),
            *(
                library[f"CUDNN_{case['mode']}"],
                library["CUDNN_RNN_DOUBLE_BIAS"],
                library[f"CUDNN_{both}"],
            ),
            *(library["CUDNN_LINEAR_INPUT"], library[_TYPES[case["type"]]]),
            *(library["CUDNN_DATA_FLOAT"], library["CUDNN_DEFAULT_MATH"], _INPUT, case["hidden"]),
            *(case["hidden"], case["layers"], dropout, _PADDED),
        )
        return layer

    def _place(
        self, layer: Any, number: int, gate: int, size: int, space: Any, itemsize: int
    ) -> dict[str, Any]:
        library = self._library
        matrix, bias = (library.made("cudnnCreateTensorDescriptor") for _ in range(2))
        starts = [ctypes.c_void_p(), ctypes.c_void_p()]
        library.call(
            *("cudnnGetRNNWeightParams", self._handle, layer, number, size, space, gate),
            *(matrix, ctypes.byref(starts[0]), bias, ctypes.byref(starts[1])),
        )
        at = [
            None if one.value is None else (one.value - space.value) // itemsize for one in starts
        ]
        return {"weight": at[0], "bias": at[1]}

    def _forward(
        self, case: dict[str, Any], layer: Any, weights: Any, size: int, dtype: Any
    ) -> dict[str, Any]:
        library, device = self._library, self._device
        hidden, directions = case["hidden"], case["directions"]
        kind, lengths = library[_TYPES[case["type"]]], [_STEPS] * _BATCH
        x = device.put(
            np.random.default_rng(0).standard_normal((_STEPS, _BATCH, _INPUT)).astype(dtype)
        )
        y = np.empty((_STEPS, _BATCH, hidden * directions), dtype)
        described = []
        for width in (_INPUT, hidden * directions):
            one = library.made("cudnnCreateRNNDataDescriptor")
            library.call(
                *("cudnnSetRNNDataDescriptor", one, kind),
                *(library["CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED"], _STEPS, _BATCH, width),
                *(array_of(ctypes.c_int, lengths), None),
            )
            described.append(one)
        state = tensor(library, kind, (case["layers"] * directions, _BATCH, hidden))
        mode = library["CUDNN_FWD_MODE_TRAINING"]
        work, reserve = ctypes.c_size_t(), ctypes.c_size_t()
        library.call(
            *("cudnnGetRNNTempSpaceSizes", self._handle, layer, mode, described[0]),
            *(ctypes.byref(work), ctypes.byref(reserve)),
        )
        spaces = device.empty(work.value), device.empty(reserve.value)
        on_device, memory = device.put(np.array(lengths, np.int32)), device.empty(y.nbytes)

        def call() -> None:
            library.call(
                *("cudnnRNNForward", self._handle, layer, mode, on_device, described[0], x),
                *(described[1], memory, state, None, None, state, None, None, size, weights),
                *(work.value, spaces[0], reserve.value, spaces[1]),
            )

        return device.captured(call, memory, y)
