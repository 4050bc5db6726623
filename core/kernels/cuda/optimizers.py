"""Steps of optimizers, each in one pass over weights, states and gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import get_args

import numpy as np

from ...types import Array
from ..optimizer_steps import FusedStep, UpdateRule
from .launch import call, function, grid_of

__all__ = ["update"]

_FLOAT32 = np.dtype("float32")
_FACTORS, _STATES = 5, 3
_STEP = np.dtype(
    [
        ("rescale", "<f4"),
        ("clip", "<f4"),
        ("decay", "<f4"),
        ("decays_first", "<i4"),
        ("factors", "<f4", (_FACTORS,)),
    ]
)
"""``Step`` of ``optimizers.cu``, whose rules are named as in ``optimizer_steps.py``."""


_NAMES = {
    rule: tuple(field.name for field in dataclasses.fields(rule)) for rule in get_args(UpdateRule)
}
"""Names of the parameters of rules."""


def update(weight: Array, gradient: Array, states: Sequence[Array], step: FusedStep) -> bool:
    """Take a step on the current device; return False if there is no kernel for it. See
    ``Backend.update``."""
    arrays = (weight, gradient, *states)
    if not all(one.dtype == _FLOAT32 and one.flags.c_contiguous for one in arrays):
        return False
    if not weight.size:
        return True
    terms, rule = step.gradient, step.rule
    factors = [getattr(rule, name) for name in _NAMES[type(rule)]]
    factors += [0.0] * (_FACTORS - len(factors))
    parameters = np.array(
        (terms.rescale, terms.clip, terms.decay, terms.decays_first, tuple(factors)), _STEP
    )
    operands = (weight, gradient, *states, *(None,) * (_STATES - len(states)))
    found = function("optimizers.cu", "update", f"RULE={type(rule).__name__}")
    call(found, grid_of(weight.size, weight.dtype), weight.size, *operands, parameters)()
    return True
