"""Buckets of one symbol for several lengths: shapes with an open axis become those of each."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from app.domain.module import BindSpec, BucketShapes, InputDesc, ModuleKind, ModuleRecord
from app.errors import Invalid

__all__ = ["fill_lengths"]


def fill_lengths(record: ModuleRecord, spec: BindSpec) -> BindSpec:
    """Return a specification of how to bind, with a bucket for each length.

    An open axis (``null`` or 0 in a shape) of an input is as long as the bucket. A bucket that
    the specification has already keeps its shapes. Without open axes, and for a module without
    buckets, the specification stays what it is.

    Args:
        record: the module; its bucket keys are the lengths.
        spec: as a client gave it.

    Raises:
        Invalid: a bucket's key is no length, or the batch axis is open.
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
            expected = "whole shapes, for the module's bucket keys are no lengths"
            raise Invalid("data_shapes", f"an open axis and a bucket {key}", expected)
        lengths[key] = length
    return lengths


def _check_batch_axes(descs: Sequence[InputDesc], field: str) -> None:
    for position, one in enumerate(descs):
        axis = one.layout.find("N")
        if 0 <= axis < len(one.shape) and one.shape[axis] == 0:
            expected = f"the batch size on axis {axis}, as layout {one.layout!r} has it"
            raise Invalid(f"{field}[{position}].shape", list(one.shape), expected)


def _filled(descs: Sequence[InputDesc], length: int) -> tuple[InputDesc, ...]:
    return tuple(
        dataclasses.replace(one, shape=tuple(dim or length for dim in one.shape)) for one in descs
    )
