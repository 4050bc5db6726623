"""Operators by the precision in which bfloat16 models compute them, by MXNet's names."""

from __future__ import annotations

from ....ops.registry import registered_names
from . import symbol_fp16
from .symbol_fp16 import CONDITIONAL_FP32_FUNCS, LOSS_OUTPUT_FUNCTIONS

__all__ = [
    "BF16_FP32_FUNCS",
    "BF16_FUNCS",
    "BF16_USE_FP32_PARAMS",
    "CONDITIONAL_FP32_FUNCS",
    "FP32_FUNCS",
    "LOSS_OUTPUT_FUNCTIONS",
    "WIDEST_TYPE_CASTS",
]

BF16_FUNCS = ["Convolution", "FullyConnected"]
"""Computed in bfloat16."""

BF16_FP32_FUNCS = str.split("""
    abs _add BatchNorm BatchNormWithReLU clip Concat concat LRN Pooling relu shuffle _shuffle sqrt
    square tanh
""")
"""Computed in the dtype of their first input."""

BF16_USE_FP32_PARAMS = {
    name: ["", "gamma", "beta", "moving_mean", "moving_var"]
    for name in ("BatchNormWithReLU", "BatchNorm")
}
"""By operator, the inputs that remain float32; "" stands for one that does not."""

_NOT_WIDEST = {
    *BF16_FP32_FUNCS,
    "broadcast_mul",
    "_contrib_interleaved_matmul_encdec_qk",
    "_contrib_interleaved_matmul_encdec_valatt",
    "_contrib_interleaved_matmul_selfatt_qk",
    "_contrib_interleaved_matmul_selfatt_valatt",
}

WIDEST_TYPE_CASTS = [
    *(name for name in symbol_fp16.WIDEST_TYPE_CASTS if name not in _NOT_WIDEST),
    "_contrib_MultiBoxDetection",
    "_contrib_MultiBoxPrior",
    "_contrib_MultiBoxTarget",
]
"""Computed in the widest dtype of their inputs."""

_OTHERS = {
    *BF16_FUNCS,
    *BF16_FP32_FUNCS,
    *WIDEST_TYPE_CASTS,
    *(name for name, _, _ in CONDITIONAL_FP32_FUNCS),
    "amp_cast",
    "amp_multicast",
}

FP32_FUNCS = sorted(set(registered_names()) - _OTHERS)
"""Computed in float32: all others."""
