"""Regions of interest. All elements are distinct, so that maxima do not tie."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, permutation, values

_ROIS = values(
    [
        [0, 0, 0, 9, 7],
        [1, 4, 2, 15, 12],
        [0, 10, 9, 30, 25],
        [1, 7.3, 6.6, 7.4, 6.5],
        [1, -6, -3, 5.5, 4.5],
    ]
)
_PROPER = values([[0, 0, 0, 9, 7], [1, 4, 2.5, 15, 12], [1, 10, 9, 30, 25]])

_ROTATED = values(
    [[0, 7, 6, 9, 5, 30], [1, 9, 8, 20, 3, -75], [0, 0, 0, 4, 4, 180], [1, 5, 5, 0.5, 0.1, 0]]
)


def _case(name: str, op: str, rois: Any = _ROIS, channels: int = 2, **attrs: Any) -> Case:
    data = permutation(2, channels, 8, 9)
    return Case(name, op, {"spatial_scale": 0.5, **attrs}, {"data": data, "rois": rois})


def _align(name: str, rois: Any = _ROIS, channels: int = 2, **attrs: Any) -> Case:
    attrs = {"pooled_size": (3, 2), **attrs}
    return _case(f"align_{name}", "_contrib_ROIAlign", rois, channels, **attrs)


CASES = (
    _case("pool", "ROIPooling", pooled_size=(2, 3)),
    _case("pool_one", "ROIPooling", pooled_size=(1, 1), spatial_scale=1.0),
    _case("pool_fine", "ROIPooling", pooled_size=(7, 7), spatial_scale=0.25),
    _align("adaptive"),
    _align("sampled", sample_ratio=2),
    _align("census", pooled_size=(14, 14), sample_ratio=2, spatial_scale=0.0625),
    _align("aligned", _PROPER, aligned=True),
    _align("position_sensitive", channels=12, position_sensitive=True),
    *(
        _case(
            f"psroi_{pooled}_{groups}",
            "_contrib_PSROIPooling",
            channels=2 * (groups or pooled) ** 2,
            output_dim=2,
            pooled_size=pooled,
            group_size=groups,
        )
        for pooled, groups in ((2, 0), (3, 2), (2, 3))
    ),
    *(
        Case(
            f"rotated_{name}",
            "_contrib_RROIAlign",
            {"pooled_size": (3, 2), "spatial_scale": 0.5, **attrs},
            {"data": permutation(2, 2, 8, 9), "rois": _ROTATED},
            grads=False,
        )
        for name, attrs in (("adaptive", {}), ("sampled", {"sampling_ratio": 2}))
    ),
    _align("one_to_one", spatial_scale=1.0, sample_ratio=1),
)
