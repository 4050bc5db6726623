"""Accepts a single example without a batch axis, a common first attempt of new users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.domain.module import InputDesc
from app.domain.ragged_axes import batch_axis
from app.link.protocols import Arrays

__all__ = ["as_batch"]


def as_batch(descs: Sequence[InputDesc], tensors: Arrays) -> Arrays:
    """Return inputs with one axis fewer than bound as a batch of one; others unchanged."""
    known = {one.name: one for one in descs}
    lacking = [
        name
        for name, tensor in tensors.items()
        if name in known and _lacks_axis(known[name], tensor)
    ]
    others = [name for name in tensors if name in known and name not in lacking]
    if not lacking or not all(_is_one(known[name], tensors[name]) for name in others):
        return tensors
    batches = {name: np.expand_dims(tensors[name], batch_axis(known[name])) for name in lacking}
    return {**tensors, **batches}


def _lacks_axis(desc: InputDesc, tensor: np.ndarray) -> bool:
    return batch_axis(desc) >= 0 and tensor.ndim == len(desc.shape) - 1


def _is_one(desc: InputDesc, tensor: np.ndarray) -> bool:
    """Return whether a tensor has one number per example, for a single example."""
    return tensor.shape == (1,) and len(desc.shape) == 1
