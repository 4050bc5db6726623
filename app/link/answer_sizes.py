"""The size of an answer's tensors, and the refusal of one that is too large."""

from __future__ import annotations

import math

import numpy as np

from app.errors.tree import HostError
from app.link.specs import TensorSpecs

__all__ = ["answer_bytes", "check_answer"]


def answer_bytes(specs: TensorSpecs) -> int:
    """Return the bytes of tensors with these shapes and dtypes."""
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in specs.values())


def check_answer(size: int, limit: int) -> None:
    """Raise HostError if an answer of this many bytes exceeds the limit."""
    if size > limit:
        raise HostError(
            "too_large",
            f"the answer would take {size:,} bytes, the limit is {limit:,}; ask for fewer examples "
            "or tensors at once, predict a dataset in a job, download a checkpoint for parameters, "
            "or raise MODSERVE_MAX_ANSWERS_BYTES to more than twice that size",
            extensions={"limit": limit},
        )
