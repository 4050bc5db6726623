"""Automatic mixed precision (``mx.contrib.amp``).

``convert_model`` and its siblings make models for inference from float32 ones: casts are inserted,
so that convolutions and the like are computed in float16 or bfloat16. ``init``, ``init_trainer``
and ``scale_loss`` train Gluon blocks in mixed precision.
"""

from __future__ import annotations

from . import amp, lists
from .amp import (
    convert_bucketing_module,
    convert_hybrid_block,
    convert_model,
    convert_symbol,
    init,
    init_trainer,
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_loss_output_functions,
    list_lp16_fp32_ops,
    list_lp16_ops,
    list_lp16_use_fp32_params,
    list_widest_type_cast,
    scale_loss,
    unscale,
)
from .loss_scaler import LossScaler

__all__ = [
    "LossScaler",
    "amp",
    "convert_bucketing_module",
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "lists",
    "scale_loss",
    "unscale",
]
