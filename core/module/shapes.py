"""The input shapes of batches, against those that are bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.io import DataDesc
from core.module.group import ExecutorGroup

__all__ = ["other_shapes", "shape_key"]


def shape_key(data: Sequence[DataDesc], labels: Sequence[DataDesc] | None) -> Any:
    """Return what tells one set of input shapes from another."""
    return tuple(
        (one.name, one.shape, str(one.dtype), one.layout) for one in (*data, *(labels or ()))
    )


def other_shapes(batch: Any, group: ExecutorGroup) -> tuple[Any, Any] | None:
    """Return the (data, label) descriptions of a batch, None where they are the bound ones.

    Args:
        batch: a batch, or a list with one batch per device, which together are the whole.
        group: the bound executors.
    """
    several = isinstance(batch, list)
    first = batch[0] if several else batch
    parts = len(batch) if several else 1
    shapes = [_times(tuple(array.shape), parts) for array in first.data]
    if shapes == [desc.shape for desc in group.data_shapes]:
        return None
    data = None if several else getattr(batch, "provide_data", None)
    labels = None if several else getattr(batch, "provide_label", None)
    if not labels and first.label and group.label_shapes:
        labels = [
            _reshaped(desc, _times(tuple(array.shape), parts))
            for desc, array in zip(group.label_shapes, first.label, strict=True)
        ]
    pairs = zip(group.data_shapes, shapes, strict=False)
    return data or [_reshaped(desc, shape) for desc, shape in pairs], labels


def _times(shape: tuple[int, ...], parts: int) -> tuple[int, ...]:
    return (shape[0] * parts, *shape[1:]) if parts > 1 else shape


def _reshaped(desc: DataDesc, shape: tuple[int, ...]) -> DataDesc:
    return DataDesc(desc.name, shape, desc.dtype, desc.layout)
