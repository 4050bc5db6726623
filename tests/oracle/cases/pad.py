"""Padding and upsampling."""

from __future__ import annotations

from oracle.case import Case, normal

_WIDTH = (0, 0, 0, 0, 1, 2, 0, 3)

CASES = (
    *(
        Case(mode, "Pad", {"mode": mode, "pad_width": _WIDTH}, {"data": (2, 2, 3, 4)})
        for mode in ("constant", "edge", "reflect")
    ),
    *(
        Case(
            f"{mode}_volume",
            "pad",
            {"mode": mode, "pad_width": (0, 0, 0, 0, 1, 0, 2, 1, 1, 1)},
            {"data": (1, 2, 2, 3, 2)},
        )
        for mode in ("constant", "edge", "reflect")
    ),
    Case(
        "value",
        "Pad",
        {"mode": "constant", "pad_width": _WIDTH, "constant_value": 1.5},
        {"data": (1, 1, 2, 2)},
    ),
    Case(
        "infinity",
        "Pad",
        {"mode": "constant", "pad_width": _WIDTH, "constant_value": float("-inf")},
        {"data": (1, 1, 2, 2)},
        numeric=False,
    ),
    Case(
        "float64",
        "Pad",
        {"mode": "edge", "pad_width": _WIDTH},
        {"data": normal(1, 1, 2, 2, dtype="float64")},
    ),
    Case("none", "Pad", {"mode": "edge", "pad_width": (0,) * 8}, {"data": (1, 1, 2, 2)}),
    Case(
        "up",
        "UpSampling",
        {"scale": 2, "sample_type": "nearest", "num_args": 1},
        {"a": (2, 3, 2, 3)},
        positional=True,
    ),
    Case(
        "up_three",
        "UpSampling",
        {"scale": 3, "sample_type": "nearest", "num_args": 1},
        {"a": (1, 2, 2, 1)},
        positional=True,
    ),
    Case(
        "up_one",
        "UpSampling",
        {"scale": 1, "sample_type": "nearest", "num_args": 1},
        {"a": (1, 2, 2, 2)},
        positional=True,
    ),
    Case(
        "up_concat",
        "UpSampling",
        {"scale": 2, "sample_type": "nearest", "num_args": 2},
        {"a": (1, 2, 4, 4), "b": (1, 3, 2, 2)},
        positional=True,
    ),
    Case(
        "up_sum",
        "UpSampling",
        {"scale": 2, "sample_type": "nearest", "num_args": 2, "multi_input_mode": "sum"},
        {"a": (1, 2, 4, 4), "b": (1, 2, 2, 2)},
        positional=True,
    ),
    Case(
        "up_bilinear",
        "UpSampling",
        {"scale": 2, "sample_type": "bilinear", "num_filter": 2, "num_args": 1},
        {"data": (1, 2, 3, 4), "weight": (2, 1, 4, 4)},
    ),
    Case(
        "up_bilinear_three",
        "UpSampling",
        {"scale": 3, "sample_type": "bilinear", "num_filter": 2, "num_args": 1},
        {"data": (1, 2, 2, 2), "weight": (2, 1, 5, 5)},
    ),
)
