"""Padding of examples to the size of a bucket, and their lengths as inputs of the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.domain.module import InputDesc
from app.domain.ragged_axes import RaggedInput, batch_axis, length_axis
from app.executor.predict.inputs import check_shape
from app.link.protocols import Arrays
from core.types import Shape, to_dtype

__all__ = ["fits", "lengths_to_add", "pad", "padded_shape"]


def fits(desc: InputDesc, got: Shape, ragged: frozenset[int]) -> bool:
    """Return whether a tensor can be padded to a bucket's shape.

    Args:
        ragged: axes along which it may be shorter.
    """
    return len(desc.shape) == len(got) and all(
        have == want or (position in ragged and have > want)
        for position, (have, want) in enumerate(zip(desc.shape, got, strict=True))
        if position != batch_axis(desc)
    )


def padded_shape(tensor: np.ndarray, desc: InputDesc, ragged: frozenset[int]) -> Shape:
    """Return the shape after padding to the bucket's size; unchanged if it has that size or cannot
    be padded to it."""
    if not fits(desc, tensor.shape, ragged):
        return tensor.shape
    return tuple(
        have if position == batch_axis(desc) else bound
        for position, (have, bound) in enumerate(zip(tensor.shape, desc.shape, strict=True))
    )


def pad(tensor: np.ndarray, desc: InputDesc, ragged: frozenset[int]) -> np.ndarray:
    """Return the tensor padded to the bucket's size."""
    shape = padded_shape(tensor, desc, ragged)
    if tensor.shape == shape:
        return tensor
    target = np.full(shape, desc.pad_value, to_dtype(desc.dtype))
    target[tuple(slice(length) for length in tensor.shape)] = tensor
    return target


def lengths_to_add(
    descs: Sequence[InputDesc], tensors: Arrays, ragged: Sequence[RaggedInput]
) -> Arrays:
    """Return the inputs that hold the lengths of others and were not sent.

    Raises:
        Invalid: the other input has another number of dimensions than bound.
    """
    others = {one.name: one for one in descs}
    added = {}
    for one in descs:
        if one.lengths_of is None or one.name in tensors or one.lengths_of not in tensors:
            continue
        other, tensor = others[one.lengths_of], tensors[one.lengths_of]
        if tensor.ndim != len(other.shape):
            check_shape(other.name, tensor.shape, other.shape, batch_axis(other))
        axis = length_axis(other, ragged)
        assert axis is not None  # it was bound
        rows = tensor.shape[batch_axis(other)]
        added[one.name] = np.full(rows, tensor.shape[axis], to_dtype(one.dtype))
    return added
