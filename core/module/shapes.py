"""Comparison of the input shapes of batches with the bound ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..io import DataDesc
from .group import ExecutorGroup

__all__ = ["other_shapes", "shape_key"]


def shape_key(data: Sequence[DataDesc], labels: Sequence[DataDesc] | None) -> Any:
    """Return a key that identifies a set of input shapes."""
    return tuple(
        (one.name, one.shape, str(one.dtype), one.layout) for one in (*data, *(labels or ()))
    )


def other_shapes(batch: Any, group: ExecutorGroup) -> tuple[Any, Any] | None:
    """Return the (data, label) descriptions of a batch, or None if they are the bound ones.

    Args:
        batch: a batch, or a list of one batch per device.
        group: the bound executors.

    Raises:
        ShapeError: the batches of a list have different shapes.
    """
    several = isinstance(batch, list)
    # The usual case, first and short because it precedes every pass.
    if not several and [array.shape for array in batch.data] == group.input_shapes:
        return None
    if several:
        _check_alike(batch)
    first = batch[0] if several else batch
    parts = len(batch) if several else 1
    shapes = [_times(tuple(array.shape), parts) for array in first.data]
    if shapes == group.input_shapes:
        return None
    data = None if several else getattr(batch, "provide_data", None)
    labels = None if several else getattr(batch, "provide_label", None)
    given = getattr(first, "label", None)
    reshaped = [
        _reshaped(desc, shape) for desc, shape in zip(group.data_shapes, shapes, strict=False)
    ]
    if not labels and group.label_shapes:
        labels = (
            [
                _reshaped(desc, _times(tuple(array.shape), parts))
                for desc, array in zip(group.label_shapes, given, strict=True)
            ]
            if given
            else _inferred_labels(reshaped, group)
        )
    return data or reshaped, labels


def _check_alike(batches: Sequence[Any]) -> None:
    if not batches:
        raise ShapeError("the list of batches is empty; give one batch per device")
    first, *others = [[tuple(array.shape) for array in batch.data] for batch in batches]
    for shapes in others:
        if shapes != first:
            raise ShapeError(
                f"all data batches in a list need to have the same shapes, got {first} and {shapes}"
            )


def _inferred_labels(data: Sequence[DataDesc], group: ExecutorGroup) -> list[DataDesc]:
    """Infer the descriptions of the labels for data of other shapes.

    They are needed for a batch without labels too: a later batch of these shapes may have labels.
    """
    assert group.label_shapes is not None
    arguments = group.spec.arguments
    known = {desc.name: desc.shape for desc in data if desc.name in arguments}
    shapes, _, _ = group.spec.symbol.infer_shape_partial(**known)
    by_name = dict(zip(arguments, shapes or (), strict=False))
    return [_reshaped(desc, by_name.get(desc.name, desc.shape)) for desc in group.label_shapes]


def _times(shape: tuple[int, ...], parts: int) -> tuple[int, ...]:
    return (shape[0] * parts, *shape[1:]) if parts > 1 else shape


def _reshaped(desc: DataDesc, shape: tuple[int, ...]) -> DataDesc:
    return DataDesc(desc.name, shape, desc.dtype, desc.layout)
