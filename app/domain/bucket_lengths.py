"""Buckets whose keys are lengths: the key is the length of an axis of their inputs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.domain.module import BindSpec, BucketShapes, InputDesc, ModuleKind, ModuleRecord
from app.domain.ragged_axes import batch_axis
from app.errors.tree import Invalid

__all__ = ["LengthInput", "fill_lengths", "length_input", "shapes_for"]


class LengthInput(NamedTuple):
    """The input whose length chooses a bucket.

    Attributes:
        name: of the input.
        axis: of its shape.
        batch_axis: the axis of its examples.
        bound: the lengths that have a bucket, ascending.
    """

    name: str
    axis: int
    batch_axis: int
    bound: tuple[int, ...]


def length_input(record: ModuleRecord) -> LengthInput | None:
    """Return the first input whose length is the key in all bound buckets; None if there is
    none.
    """
    if record.kind is not ModuleKind.BUCKETING or record.bind is None:
        return None
    buckets = _bound(record)
    if not all(key.isdecimal() for key in buckets):
        return None
    for desc in record.bind.data_shapes:
        axes = _axes_of_length(desc, buckets)
        if axes and batch_axis(desc) >= 0:
            bound = tuple(sorted(map(int, buckets)))
            return LengthInput(desc.name, axes[0], batch_axis(desc), bound)
    return None


def shapes_for(record: ModuleRecord, length: int) -> BucketShapes:
    """Return the shapes of a bucket of another length, after the default bucket's."""
    assert record.bind is not None
    buckets = _bound(record)

    def changed(descs: Sequence[InputDesc]) -> tuple[InputDesc, ...]:
        found = []
        for desc in descs:
            axes = _axes_of_length(desc, buckets)
            dims = (length if axis in axes else dim for axis, dim in enumerate(desc.shape))
            found.append(dataclasses.replace(desc, shape=tuple(dims)))
        return tuple(found)

    return BucketShapes(
        data_shapes=changed(record.bind.data_shapes),
        label_shapes=changed(record.bind.label_shapes),
    )


def _bound(record: ModuleRecord) -> dict[str, BucketShapes]:
    assert record.bind is not None
    default = BucketShapes(
        data_shapes=record.bind.data_shapes, label_shapes=record.bind.label_shapes
    )
    return {record.default_bucket_key: default, **record.bind.buckets}


def _axes_of_length(desc: InputDesc, buckets: Mapping[str, BucketShapes]) -> list[int]:
    """Return the axes of an input or label whose length is the key in every bucket."""
    shapes = {key: _shape_of(desc.name, one) for key, one in buckets.items()}
    return [
        axis
        for axis in range(len(desc.shape))
        if axis != batch_axis(desc)
        and all(axis < len(shape) and shape[axis] == int(key) for key, shape in shapes.items())
    ]


def _shape_of(name: str, shapes: BucketShapes) -> tuple[int, ...]:
    """Return the shape of an input or label in a bucket; empty if the bucket has none."""
    descs = (*shapes.data_shapes, *shapes.label_shapes)
    return next((desc.shape for desc in descs if desc.name == name), ())


def fill_lengths(record: ModuleRecord, spec: BindSpec) -> BindSpec:
    """Return a bind specification with a bucket for each length.

    An open axis (``null`` or 0 in a shape) of an input gets the length of the bucket. A bucket
    already in the specification keeps its shapes. Without open axes, and for a module without
    buckets, the specification is returned unchanged.

    Args:
        record: the module; its bucket keys are the lengths.
        spec: as given by a client.

    Raises:
        Invalid: a bucket's key is not a length, or the batch axis is open.
    """
    if record.kind is not ModuleKind.BUCKETING or not _has_open_axis(spec):
        return spec
    lengths = _lengths(record.symbols)
    _check_batch_axes(spec.data_shapes, "data_shapes")
    _check_batch_axes(spec.label_shapes, "label_shapes")
    filled = {
        key: BucketShapes(
            data_shapes=_filled(spec.data_shapes, length),
            label_shapes=_filled(spec.label_shapes, length),
        )
        for key, length in lengths.items()
    }
    default = filled.pop(record.default_bucket_key)
    return dataclasses.replace(
        spec,
        data_shapes=default.data_shapes,
        label_shapes=default.label_shapes,
        buckets={**filled, **spec.buckets},
    )


def _has_open_axis(spec: BindSpec) -> bool:
    return any(0 in one.shape for one in (*spec.data_shapes, *spec.label_shapes))


def _lengths(symbols: Mapping[str, str]) -> dict[str, int]:
    lengths = {}
    for key in symbols:
        length = json.loads(key)
        if type(length) is not int:
            expected = "whole shapes, because the module's bucket keys are not lengths"
            raise Invalid("data_shapes", f"an open axis and a bucket {key}", expected)
        lengths[key] = length
    return lengths


def _check_batch_axes(descs: Sequence[InputDesc], field: str) -> None:
    for position, one in enumerate(descs):
        axis = batch_axis(one)
        if 0 <= axis < len(one.shape) and one.shape[axis] == 0:
            reason = "" if one.layout is None else f", as layout {one.layout!r} has it"
            expected = f"the batch size on axis {axis}{reason}"
            raise Invalid(f"{field}[{position}].shape", list(one.shape), expected)


def _filled(descs: Sequence[InputDesc], length: int) -> tuple[InputDesc, ...]:
    return tuple(
        dataclasses.replace(one, shape=tuple(dim or length for dim in one.shape)) for one in descs
    )
