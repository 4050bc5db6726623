"""Deformable position-sensitive pooling."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, normal, permutation, values

_ROIS = values([[0, 0, 0, 9, 7], [1, 4, 2, 15, 12], [0, 10, 9, 30, 25], [1, 7.3, 6.6, 7.4, 6.5]])


def _case(name: str, classes: int, parts: int, **attrs: Any) -> Case:
    attrs = {"spatial_scale": 0.37, "output_dim": 2, "group_size": 2, "pooled_size": 3, **attrs}
    channels = attrs["output_dim"] * attrs["group_size"] ** 2
    inputs: dict[str, Any] = {"data": permutation(2, channels, 7, 8), "rois": _ROIS}
    if classes:
        inputs["trans"] = normal(4, 2 * classes, parts, parts)
    return Case(name, "_contrib_DeformablePSROIPooling", attrs, inputs)


CASES = (
    _case("plain", 1, 3, trans_std=0.1),
    _case("classes", 2, 3, trans_std=0.2, sample_per_part=2),
    _case("parts", 1, 2, trans_std=0.1, part_size=2, sample_per_part=3),
    _case("no_trans", 0, 0, no_trans=True, sample_per_part=2),
    _case("groups", 1, 2, trans_std=0.1, group_size=3, pooled_size=2),
)
