"""The target dtypes, and the lists of operators of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import TypeInferenceError, UsageError
from ...types import DType, to_dtype
from .lists import symbol_bf16, symbol_fp16

__all__ = [
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "target_of",
]

_FLOAT16, _BFLOAT16 = np.dtype("float16"), to_dtype("bfloat16")


def target_of(dtype: Any) -> DType:
    """Return a target dtype; UsageError for any other than float16 and bfloat16."""
    try:
        found = to_dtype(dtype)
    except TypeInferenceError:
        found = None
    if found not in (_FLOAT16, _BFLOAT16):
        raise UsageError(f"target_dtype is {dtype!r}; expected 'float16' or 'bfloat16'")
    return found


def _is_float16(target_dtype: Any) -> bool:
    return target_of(target_dtype) == _FLOAT16


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """Return the operators that are computed in the target dtype."""
    return symbol_fp16.FP16_FUNCS if _is_float16(target_dtype) else symbol_bf16.BF16_FUNCS


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """Return the operators that are computed in float32."""
    return symbol_fp16.FP32_FUNCS if _is_float16(target_dtype) else symbol_bf16.FP32_FUNCS


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """Return the operators that are computed in the dtype of their first input."""
    is_float16 = _is_float16(target_dtype)
    return symbol_fp16.FP16_FP32_FUNCS if is_float16 else symbol_bf16.BF16_FP32_FUNCS


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """Return (operator, attribute, values with which it is computed in float32)."""
    target_of(target_dtype)
    return symbol_fp16.CONDITIONAL_FP32_FUNCS  # the same for both


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """Return the operators that are computed in the widest dtype of their inputs."""
    is_float16 = _is_float16(target_dtype)
    return symbol_fp16.WIDEST_TYPE_CASTS if is_float16 else symbol_bf16.WIDEST_TYPE_CASTS


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """Return the losses whose gradient is scaled by the operator itself."""
    target_of(target_dtype)
    return symbol_fp16.LOSS_OUTPUT_FUNCTIONS  # the same for both


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """Return by operator the inputs that remain float32; None for float16."""
    return None if _is_float16(target_dtype) else symbol_bf16.BF16_USE_FP32_PARAMS
