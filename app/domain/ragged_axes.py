"""Axes in which the buckets of a module differ: examples may be shorter there, and are padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.domain.module import BucketShapes, InputDesc

__all__ = ["RaggedInput", "batch_axis", "length_axis", "ragged_inputs"]


class RaggedInput(NamedTuple):
    """An axis of an input in which buckets differ.

    Attributes:
        name: of the input.
        axis: of its shape.
        lengths: of the axis, by bucket key.
    """

    name: str
    axis: int
    lengths: dict[str, int]


def batch_axis(desc: InputDesc) -> int:
    """Return the axis of the examples; -1 if there is none."""
    return 0 if desc.layout is None else desc.layout.find("N")


def ragged_inputs(buckets: Mapping[str, BucketShapes]) -> list[RaggedInput]:
    """Return the axes in which buckets differ; none if there is only one bucket."""
    named = {key: {one.name: one for one in shapes.data_shapes} for key, shapes in buckets.items()}
    found = []
    for name, desc in next(iter(named.values())).items():
        if not all(name in one for one in named.values()):
            continue
        for axis in range(len(desc.shape)):
            lengths = {key: one[name].shape[axis] for key, one in named.items()}
            if axis != batch_axis(desc) and len(set(lengths.values())) > 1:
                found.append(RaggedInput(name, axis, lengths))
    return found


def length_axis(desc: InputDesc, ragged: Sequence[RaggedInput]) -> int | None:
    """Return the length axis of an input: that in which buckets differ, else the first.

    None if there is no such axis, or buckets differ in several.
    """
    axes = [one.axis for one in ragged if one.name == desc.name]
    if not axes:
        axes = [axis for axis in range(len(desc.shape)) if axis != batch_axis(desc)][:1]
    return axes[0] if len(axes) == 1 else None
