"""Stochastic gradient descent in one pass over weights, momentum and gradients."""

from __future__ import annotations

import ctypes

import numpy as np

from ...types import Array
from ..backend import Descent
from .library import DescentFactors, library, threads

__all__ = ["descend"]

_FLOAT32 = np.dtype("float32")


def descend(weight: Array, velocity: Array | None, gradient: Array, step: Descent) -> bool:
    """Take a step; return False if there is no kernel for it. See ``Backend.descend``."""
    found = library()
    if found is None or step.clip < 0:
        return False
    arrays = (weight, gradient) if velocity is None else (weight, gradient, velocity)
    if not all(one.dtype == _FLOAT32 and one.flags.c_contiguous for one in arrays):
        return False
    found.descend(
        ctypes.byref(DescentFactors(step.rescale, step.clip, step.decay, step.rate, step.momentum)),
        weight.size,
        weight.ctypes.data,
        None if velocity is None else velocity.ctypes.data,
        gradient.ctypes.data,
        threads(),
    )
    return True
