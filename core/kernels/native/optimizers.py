"""Steps of optimizers, each in one pass over weights, states and gradients."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence

import numpy as np

from ...types import Array
from ..optimizer_steps import (
    FTRL,
    NAG,
    SGD,
    AdaGrad,
    Adam,
    CenteredRMSProp,
    FusedStep,
    Momentum,
    RMSProp,
    Signum,
)
from .library import library, threads
from .structures import UpdateStep

__all__ = ["update"]

_FLOAT32 = np.dtype("float32")
_RULES = (
    SGD,
    Momentum,
    NAG,
    Signum,
    Adam,
    AdaGrad,
    CenteredRMSProp,
    RMSProp,
    FTRL,
)
"""In the order of the table in C, whose structures have the fields of these classes."""

_NUMBERED = {
    rule: (index, [field.name for field in dataclasses.fields(rule)])
    for index, rule in enumerate(_RULES)
}
"""Number and names of the parameters; ``astuple`` would take longer than a small step."""


def update(weight: Array, gradient: Array, states: Sequence[Array], step: FusedStep) -> bool:
    """Take a step; return False if there is no kernel for it. See ``Backend.update``."""
    found = library()
    if found is None:
        return False
    arrays = (weight, gradient, *states)
    if not all(one.dtype == _FLOAT32 and one.flags.c_contiguous for one in arrays):
        return False
    terms, (number, names) = step.gradient, _NUMBERED[type(step.rule)]
    factors = tuple([getattr(step.rule, name) for name in names])
    addresses = [one.ctypes.data for one in states]
    found.update(
        ctypes.byref(
            UpdateStep(terms.rescale, terms.clip, terms.decay, terms.decays_first, factors)
        ),
        number,
        weight.size,
        weight.ctypes.data,
        gradient.ctypes.data,
        *addresses,
        *[None] * (3 - len(addresses)),
        threads(),
    )
    return True
