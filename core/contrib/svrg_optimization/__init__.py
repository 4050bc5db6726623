"""Stochastic variance-reduced gradients (Johnson and Zhang 2013)."""

from __future__ import annotations

from . import svrg_module, svrg_optimizer

__all__ = ["svrg_module", "svrg_optimizer"]
