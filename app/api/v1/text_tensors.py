"""Texts as the tensor of an input: a row of vocabulary indices for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.domain.module import BucketShapes, InputDesc, ModuleRecord
from app.domain.ragged_axes import batch_axis, ragged_inputs
from app.domain.transforms import TextTransform
from app.errors.tree import Invalid
from app.tensors.codec import Tensors

__all__ = ["text_tensors"]


def text_tensors(
    record: ModuleRecord, name: str, transform: TextTransform, texts: Sequence[bytes]
) -> Tensors:
    """Return the tensor of an input, and the lengths of its texts if another input takes them.

    Args:
        record: a module that is bound.
        name: of the input.

    Raises:
        Invalid: a text cannot be transformed, or the input is not bound for texts.
    """
    assert record.bind is not None
    descs = record.bind.data_shapes
    desc = next(one for one in descs if one.name == name)
    lengths = _lengths(record, desc)
    # A transform may cut texts earlier than the longest bucket does, never later.
    longest = min(transform.max_length or lengths[-1], lengths[-1])
    rows = [
        transform.read(text, name if len(texts) == 1 else f"{name}[{n}]", longest)
        for n, text in enumerate(texts)
    ]
    fill = desc.pad_value if transform.padding is None else transform.places[transform.padding]
    width = max(map(len, rows))
    # The executor pads to a bucket with the pad value of the input; with another index, or where
    # there are no buckets, the texts are padded here.
    if len(lengths) == 1 or fill != desc.pad_value:
        width = next(length for length in lengths if length >= width)
    table = np.full((len(rows), width), fill, desc.dtype)
    for row, places in zip(table, rows, strict=True):
        row[: len(places)] = places
    tensors = {name: table.T if batch_axis(desc) == 1 else table}
    for other in descs:
        if other.lengths_of == name:
            tensors[other.name] = np.array([len(row) for row in rows], other.dtype)
    return tensors


def _lengths(record: ModuleRecord, desc: InputDesc) -> list[int]:
    """Return the possible lengths of the input: of each bucket, or as bound."""
    assert record.bind is not None
    if len(desc.shape) != 2 or batch_axis(desc) not in (0, 1):
        expected = "an input bound for texts: an axis of examples, and one of tokens"
        raise Invalid(desc.name, f"a text, for shape {desc.shape}", expected)
    axis = 1 - batch_axis(desc)
    default = BucketShapes(data_shapes=record.bind.data_shapes)
    buckets = {record.default_bucket_key: default, **record.bind.buckets}
    for ragged in ragged_inputs(buckets):
        if (ragged.name, ragged.axis) == (desc.name, axis):
            return sorted(ragged.lengths.values())
    return [desc.shape[axis]]
