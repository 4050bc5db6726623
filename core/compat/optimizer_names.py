"""A method of optimizers that MXNet has removed."""

from __future__ import annotations

from typing import Any

__all__ = ["OptimizerNames"]


class OptimizerNames:
    """Removed methods of ``mxnet.optimizer.Optimizer``, which say what has taken their place."""

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """Raise DeprecationWarning, as in MXNet."""
        raise DeprecationWarning("set_lr_scale is gone; use set_lr_mult")
