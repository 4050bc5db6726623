"""Resizing images."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, normal


def _pool(name: str, shape: tuple[int, int] = (7, 5), **attrs: Any) -> Case:
    data = {"data": (2, 3, *shape)}
    return Case(f"adaptive_{name}", "_contrib_AdaptiveAvgPooling2D", attrs, data)


def _resize(name: str, shape: tuple[int, int] = (4, 5), **attrs: Any) -> Case:
    data = {"data": (2, 3, *shape)}
    return Case(f"bilinear_{name}", "_contrib_BilinearResize2D", attrs, data)


CASES = (
    _pool("default"),
    _pool("one", output_size=1),
    _pool("square", output_size=3),
    _pool("tuple", output_size=(2, 4)),
    _pool("larger", output_size=(9, 6)),
    _resize("size", height=7, width=9),
    _resize("smaller", (9, 8), height=3, width=4),
    _resize("one", height=1, width=1),
    _resize("unaligned", height=7, width=9, align_corners=False),
    _resize("unaligned_smaller", (9, 8), height=4, width=3, align_corners=False),
    _resize("scale", scale_height=2.5, scale_width=0.5),
    _resize("odd_scale", (5, 4), scale_height=2.0, scale_width=1.5, mode="odd_scale"),
    _resize("odd_scale_down", (7, 9), scale_height=0.5, scale_width=0.5, mode="odd_scale"),
    *(
        _resize(mode, mode=mode)
        for mode in ("to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
    ),
    Case(
        "bilinear_float64",
        "_contrib_BilinearResize2D",
        {"height": 28, "width": 31},
        {"data": normal(1, 1, 9, 20, dtype="float64")},
        tolerance=2e-7,
        numeric=False,
    ),
    Case(
        "bilinear_like",
        "_contrib_BilinearResize2D",
        {"mode": "like"},
        {"data": (2, 3, 4, 5), "like": (1, 2, 6, 3)},
        grads=("data",),
    ),
)
