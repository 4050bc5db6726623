"""Which products cuBLASLt supports, computes correctly, and can capture."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from hardware.device import Device
from hardware.headers import Library

__all__ = ["FUNCTIONS", "LIBRARY", "Probe", "cases"]

LIBRARY = ("libcublasLt.so*", "cublasLt.h", "cublas_api.h", "library_types.h")
FUNCTIONS = (
    *("cublasLtCreate", "cublasLtMatmul", "cublasLtMatmulAlgoGetHeuristic"),
    *("cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate"),
    *("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute"),
)
_TYPES: dict[str, tuple[str, str, Any, float]] = {
    "float32": ("CUDA_R_32F", "CUBLAS_COMPUTE_32F", np.float32, 1e-5),
    "tf32": ("CUDA_R_32F", "CUBLAS_COMPUTE_32F_FAST_TF32", np.float32, 2e-3),
    "float16": ("CUDA_R_16F", "CUBLAS_COMPUTE_32F", np.float16, 2e-3),
    "bfloat16": ("CUDA_R_16BF", "CUBLAS_COMPUTE_32F", ml_dtypes.bfloat16, 2e-2),
}
_EPILOGUES = ("DEFAULT", "BIAS", "RELU", "RELU_BIAS", "GELU", "GELU_BIAS")
_SIZES = ((64, 32, 128), (33, 7, 5))
_WORKSPACE = 32 << 20


class _Heuristic(ctypes.Structure):
    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def cases() -> list[dict[str, Any]]:
    """Return the products to try."""
    names = ("type", "transposed", "epilogue", "sizes")
    every = product(_TYPES, ("NN", "TN", "NT", "TT"), _EPILOGUES, _SIZES)
    return [dict(zip(names, one, strict=True)) for one in every]


class Probe:
    """Computes products with cuBLASLt."""

    def __init__(self, device: Device) -> None:
        self._device, self._library = device, Library(*LIBRARY)
        self._handle = self._library.made("cublasLtCreate")
        self._workspace = device.empty(_WORKSPACE)

    def run(self, case: dict[str, Any]) -> dict[str, Any]:
        """Try one product: C[m,n] = epilogue(op(A) op(B) + bias), all column-major."""
        library, device = self._library, self._device
        kind, compute, dtype, tolerance = _TYPES[case["type"]]
        m, n, k = case["sizes"]
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        bias = rng.standard_normal(m).astype(dtype)
        arguments = [
            self._operand(kind, a, case["transposed"][0] == "T"),
            self._operand(kind, b, case["transposed"][1] == "T"),
        ]
        out = np.empty((n, m), dtype)
        memory = device.empty(out.nbytes)
        layout = library.made("cublasLtMatrixLayoutCreate", library[kind], m, n, m)
        description = self._description(case, compute, device.put(bias))
        preference = library.made("cublasLtMatmulPreferenceCreate")
        limit = ctypes.c_size_t(_WORKSPACE)
        name = library["CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES"]
        library.call(
            *("cublasLtMatmulPreferenceSetAttribute", preference, name),
            *(ctypes.byref(limit), ctypes.sizeof(limit)),
        )
        found, count = _Heuristic(), ctypes.c_int()
        status = library.status(
            *("cublasLtMatmulAlgoGetHeuristic", self._handle, description),
            *(arguments[0][1], arguments[1][1], layout, layout, preference, 1),
            *(ctypes.byref(found), ctypes.byref(count)),
        )
        if status or not count.value:
            return {"runs": False, "error": library.name_of("cublasLt", status)}
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def call() -> None:
            library.call(
                *("cublasLtMatmul", self._handle, description, ctypes.byref(one)),
                *(*arguments[0], *arguments[1], ctypes.byref(zero), memory, layout),
                *(memory, layout, ctypes.byref(found.algorithm)),
                *(self._workspace, found.workspace, device.stream),
            )

        result = device.captured(call, memory, out)
        expected = _expected(case["epilogue"], a, b, bias)
        call()
        device.synchronize()
        got = device.get(memory, out).astype(np.float64).T
        scale = np.sqrt(np.mean(expected**2))
        error = float(np.abs(got - expected).max() / scale)
        return {**result, "workspace": found.workspace, "error_of_rms": error} | {
            "right": error <= tolerance * 8
        }

    def _operand(self, kind: str, values: Any, is_transposed: bool) -> tuple[Any, Any]:
        stored = (
            values if is_transposed else values.T
        )  # rows here are columns in column-major order
        columns, rows = stored.shape
        memory = self._device.put(np.ascontiguousarray(stored))
        layout = ("cublasLtMatrixLayoutCreate", self._library[kind], rows, columns, rows)
        return memory, self._library.made(*layout)

    def _description(self, case: dict[str, Any], compute: str, bias: ctypes.c_void_p) -> Any:
        library = self._library
        made = library.made("cublasLtMatmulDescCreate", library[compute], library["CUDA_R_32F"])
        attributes: dict[str, Any] = {
            "TRANSA": ctypes.c_int(library[f"CUBLAS_OP_{case['transposed'][0]}"]),
            "TRANSB": ctypes.c_int(library[f"CUBLAS_OP_{case['transposed'][1]}"]),
            "EPILOGUE": ctypes.c_int(library[f"CUBLASLT_EPILOGUE_{case['epilogue']}"]),
        }
        if "BIAS" in case["epilogue"]:
            attributes["BIAS_POINTER"] = bias
        for name, value in attributes.items():
            library.call(
                *("cublasLtMatmulDescSetAttribute", made, library[f"CUBLASLT_MATMUL_DESC_{name}"]),
                *(ctypes.byref(value), ctypes.sizeof(value)),
            )
        return made


def _expected(epilogue: str, a: Any, b: Any, bias: Any) -> np.ndarray[Any, Any]:
    out = a.astype(np.float64) @ b.astype(np.float64)
    if "BIAS" in epilogue:
        out += bias.astype(np.float64)[:, None]
    if "RELU" in epilogue:
        out = np.maximum(out, 0)
    if "GELU" in epilogue:
        out = out / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (out + 0.044715 * out**3)))
    return np.asarray(out)
