"""Pooling."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, integers, permutation, positive


def _pool(
    name: str, data: tuple[int, ...], dtype: str = "float32", train: bool = True, **attrs: Any
) -> Case:
    return Case(name, "Pooling", attrs, {"data": permutation(*data, dtype=dtype)}, train=train)


_NATIVE = "float64"
"""MXNet's own code runs, where its oneDNN path for float32 refuses (same) or is wrong (the
gradient of a full mean divides by the whole kernel, its forward pass by what lies inside)."""


_IMAGE = (2, 3, 7, 6)

CASES = (
    _pool("max", _IMAGE, kernel=(2, 2), stride=(2, 2), pool_type="max"),
    _pool("max_overlapping", _IMAGE, kernel=(3, 3), stride=(2, 2)),
    _pool("max_padded", _IMAGE, kernel=(3, 2), stride=(2, 1), pad=(1, 1)),
    _pool("max_full", _IMAGE, kernel=(3, 3), stride=(2, 2), pooling_convention="full"),
    _pool(
        "max_full_padded",
        _IMAGE,
        kernel=(3, 3),
        stride=(2, 3),
        pad=(1, 1),
        pooling_convention="full",
    ),
    _pool("max_default_stride", _IMAGE, kernel=(3, 2)),
    _pool("max_gaps", _IMAGE, kernel=(2, 2), stride=(3, 3)),
    _pool("max_global", _IMAGE, global_pool=True, kernel=(3, 3), pad=(1, 1)),
    _pool("max_global_no_kernel", _IMAGE, global_pool=True),
    _pool("max_one_axis", (2, 3, 9), kernel=(3,), stride=(2,), pad=(1,)),
    _pool("max_three_axes", (1, 2, 5, 4, 5), kernel=(2, 3, 2), stride=(2, 1, 2), pad=(0, 1, 0)),
    _pool(
        "max_channels_last", (2, 7, 6, 3), kernel=(3, 2), stride=(2, 2), pad=(1, 0), layout="NHWC"
    ),
    _pool("max_channels_last_one_axis", (2, 7, 3), kernel=(3,), stride=(2,), layout="NWC"),
    _pool(
        "max_same",
        (2, 3, 8),
        dtype=_NATIVE,
        kernel=(3,),
        stride=(2,),
        pad=(0, 0, 0),
        pooling_convention="same",
    ),
    _pool("max_inference", _IMAGE, kernel=(2, 2), stride=(2, 2), train=False),
    # The last windows lie entirely outside the data and give the lowest number.
    Case(
        "max_empty_windows",
        "Pooling",
        {"kernel": (1, 1), "stride": (4, 4), "pooling_convention": "full"},
        {"data": permutation(1, 2, 3, 3)},
        numeric=False,
    ),
    # Ties everywhere: the gradient goes to the first maximum.
    Case(
        "max_ties",
        "Pooling",
        {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)},
        {"data": integers(2, 3, 9, 9, high=3)},
        numeric=False,
    ),
    Case(
        "max_ties_gaps",
        "Pooling",
        {"kernel": (2, 2), "stride": (2, 2)},
        {"data": integers(2, 3, 8, 8, high=2)},
        numeric=False,
    ),
    Case(
        "max_float64",
        "Pooling",
        {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"},
        {"data": permutation(2, 3, 8, 6, dtype="float64")},
    ),
    Case(
        "max_float16",
        "Pooling",
        {"kernel": (3, 3), "stride": (2, 2)},
        {"data": permutation(1, 2, 7, 7, dtype="float16")},
    ),
    _pool("avg", _IMAGE, kernel=(2, 3), stride=(2, 2), pool_type="avg"),
    _pool("avg_padded", _IMAGE, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="avg"),
    _pool(
        "avg_count_data",
        _IMAGE,
        kernel=(3, 3),
        stride=(2, 2),
        pad=(1, 1),
        pool_type="avg",
        count_include_pad=False,
    ),
    _pool(
        "avg_full",
        _IMAGE,
        _NATIVE,
        kernel=(3, 3),
        stride=(2, 2),
        pool_type="avg",
        pooling_convention="full",
    ),
    _pool(
        "avg_full_padded",
        _IMAGE,
        kernel=(3, 3),
        stride=(3, 2),
        pad=(1, 1),
        pool_type="avg",
        pooling_convention="full",
    ),
    _pool(
        "avg_full_count_data",
        _IMAGE,
        kernel=(3, 3),
        stride=(3, 2),
        pad=(1, 1),
        pool_type="avg",
        pooling_convention="full",
        count_include_pad=False,
    ),
    _pool("avg_global", _IMAGE, global_pool=True, pool_type="avg", kernel=(1, 1)),
    _pool("avg_global_one_axis", (2, 3, 5), global_pool=True, pool_type="avg"),
    _pool(
        "avg_global_channels_last", (2, 5, 4, 3), global_pool=True, pool_type="avg", layout="NHWC"
    ),
    _pool(
        "avg_one_axis", (2, 3, 9), kernel=(4,), stride=(2,), pad=(1,), pool_type="avg", layout="NCW"
    ),
    _pool(
        "avg_three_axes",
        (1, 2, 5, 4, 5),
        kernel=(2, 3, 2),
        stride=(2, 1, 1),
        pad=(1, 1, 0),
        pool_type="avg",
    ),
    _pool(
        "avg_channels_last",
        (2, 7, 6, 3),
        kernel=(3, 3),
        stride=(2, 2),
        pad=(1, 1),
        pool_type="avg",
        layout="NHWC",
        count_include_pad=False,
    ),
    _pool(
        "avg_same",
        (2, 3, 8),
        dtype=_NATIVE,
        kernel=(3,),
        stride=(2,),
        pad=(0, 0, 0),
        pool_type="avg",
        pooling_convention="same",
    ),
    _pool(
        "avg_empty_windows",
        (1, 2, 3, 3),
        kernel=(1, 1),
        stride=(4, 4),
        pool_type="avg",
        pooling_convention="full",
    ),
    _pool("sum_p_value", _IMAGE, kernel=(2, 2), pool_type="sum", p_value=2),
    _pool("avg_p_value", _IMAGE, kernel=(2, 2), pool_type="avg", p_value=3),
    _pool("sum", _IMAGE, kernel=(3, 2), stride=(2, 2), pad=(1, 0), pool_type="sum"),
    _pool(
        "sum_full", _IMAGE, kernel=(3, 3), stride=(2, 2), pool_type="sum", pooling_convention="full"
    ),
    _pool("sum_global", _IMAGE, global_pool=True, pool_type="sum"),
    *(
        Case(
            f"lp_{p}",
            "Pooling",
            {"kernel": (3, 2), "stride": (2, 2), "pad": (1, 0), "pool_type": "lp", "p_value": p},
            {"data": positive(2, 3, 7, 6)},
        )
        for p in (1, 2, 3)
    ),
    _pool("lp_signed", _IMAGE, kernel=(2, 2), pool_type="lp", p_value=3),
    _pool("lp_global", _IMAGE, global_pool=True, pool_type="lp", p_value=2),
    _pool(
        "lp_global_padded",
        _IMAGE,
        global_pool=True,
        kernel=(2, 2),
        pad=(1, 1),
        pool_type="lp",
        p_value=2,
    ),
    Case(
        "lp_zero",
        "Pooling",
        {"kernel": (2, 2), "stride": (2, 2), "pool_type": "lp", "p_value": 2},
        {"data": integers(1, 2, 6, 6, high=2)},
        numeric=False,
    ),
)
