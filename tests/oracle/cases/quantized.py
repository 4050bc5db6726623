"""Quantized operators. Inputs stay within what int32 and MXNet's rounding can represent."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, Spec, integers, normal, positive, values


def _bytes(*shape: int, dtype: str = "int8") -> Spec:
    low, high = (-127, 128) if dtype == "int8" else (0, 256)
    return integers(*shape, low=low, high=high, dtype=dtype)


def _ends(*names: str, low: float = -1.5, high: float = 2.25) -> dict[str, Spec]:
    numbers = {"min": low, "max": high}
    return {name: values([numbers["min" if "min" in name else "max"]]) for name in names}


def _case(id_: str, op: str, attrs: dict[str, Any], inputs: dict[str, Any], **more: Any) -> Case:
    return Case(id_, f"_contrib_{op}", attrs, inputs, train=False, grads=False, **more)


_RANGES = {"both": (-1.5, 2.25), "positive": (0.0, 2.0), "negative": (-3.0, 1.0)}
_REAL = normal(3, 7, scale=1.5)
_DATA_ENDS = _ends("min_data", "max_data")
_BYTES = ("int8", "uint8")

_QUANTIZE = tuple(
    _case(
        f"quantize_{name}_{out_type}",
        "quantize",
        {"out_type": out_type},
        {"data": _REAL, "min_range": values([low]), "max_range": values([high])},
    )
    for name, (low, high) in _RANGES.items()
    for out_type in _BYTES
) + tuple(
    _case(
        f"quantize_v2_{name}_{out_type}",
        "quantize_v2",
        {"out_type": out_type, "min_calib_range": low, "max_calib_range": high},
        {"data": _REAL},
    )
    for name, (low, high) in _RANGES.items()
    for out_type in (*_BYTES, "auto")
)
_QUANTIZE += tuple(
    _case(f"quantize_v2_own_range_{kind}", "quantize_v2", {"out_type": kind}, {"data": _REAL})
    for kind in (*_BYTES, "auto")
)
_QUANTIZE += tuple(
    _case(
        f"quantize_v2_of_{kind}_{len(more)}",
        "quantize_v2",
        {"out_type": kind, **more},
        {"data": _bytes(2, 3, dtype=kind)},
    )
    for kind in _BYTES
    for more in ({}, {"min_calib_range": -1.0, "max_calib_range": 3.0})
)

_BACK = tuple(
    _case(
        f"dequantize_{name}_{kind}",
        "dequantize",
        {},
        {
            "data": _bytes(3, 5, dtype=kind),
            "min_range": values([low]),
            "max_range": values([high]),
        },
    )
    for name, (low, high) in _RANGES.items()
    for kind in _BYTES
)

_SUMS = integers(3, 7, low=-(2**24), high=2**24, dtype="int32")
_SUM_ENDS = _ends("min_range", "max_range", low=-500.0, high=500.0)
_REQUANTIZE = tuple(
    _case(
        f"requantize_{name}_{kind}",
        "requantize",
        {"out_type": kind, "min_calib_range": low, "max_calib_range": high},
        {"data": _SUMS, **_SUM_ENDS},
    )
    for name, (low, high) in _RANGES.items()
    for kind in (*_BYTES, "auto")
    if not (name == "negative" and kind == "uint8")
) + tuple(
    _case(
        f"requantize_own_range_{kind}",
        "requantize",
        {"out_type": kind},
        {"data": _SUMS, **_SUM_ENDS},
    )
    for kind in _BYTES
)

_LAYER_ENDS = _ends("min_data", "max_data", "min_weight", "max_weight")
# MXNet's range of a convolution's sums is that of int8 data, whatever the data is; this one is 0.
_CONVOLUTION_ENDS = {**_LAYER_ENDS, "min_data": values([0.0]), "max_data": values([0.0])}
_LAYERS: tuple[Case, ...] = (
    _case(
        "conv",
        "quantized_conv",
        {"kernel": (3, 3), "num_filter": 4, "no_bias": True, "pad": (1, 1), "stride": (2, 2)},
        {
            "data": _bytes(2, 3, 5, 6, dtype="uint8"),
            "weight": _bytes(4, 3, 3, 3),
            **_CONVOLUTION_ENDS,
        },
    ),
    _case(
        "conv_wide",
        "quantized_conv",
        {"kernel": (1, 2), "num_filter": 4, "no_bias": True, "stride": (1, 3)},
        {
            "data": _bytes(1, 4, 3, 6, dtype="uint8"),
            "weight": _bytes(4, 4, 1, 2),
            **_CONVOLUTION_ENDS,
        },
    ),
)
_LAYERS += tuple(
    _case(
        f"dense_{kind}_{'flat' if flatten else 'rows'}",
        "quantized_fully_connected",
        {"num_hidden": 3, "no_bias": True, "flatten": flatten},
        {"data": _bytes(2, 3, 4, dtype=kind), "weight": _bytes(3, size), **_LAYER_ENDS},
    )
    for kind in _BYTES
    for flatten, size in ((True, 12), (False, 4))
)
_LAYERS += tuple(
    _case(
        f"dense_bias_{kind}",
        "quantized_fully_connected",
        {"num_hidden": 3},
        {
            "data": _bytes(2, 4, dtype=kind),
            "weight": _bytes(3, 4),
            "bias": _bytes(3),
            **(_LAYER_ENDS if kind == "int8" else _ends(*_LAYER_ENDS, low=0.0)),
            **_ends("min_bias", "max_bias", low=-4.0, high=3.0),
        },
    )
    for kind in _BYTES
)

_POOL_ATTRS: dict[str, dict[str, Any]] = {
    "max": {"kernel": (2, 2), "stride": (2, 2)},
    "max_full": {"kernel": (3, 3), "stride": (2, 2), "pooling_convention": "full"},
    "max_pad": {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)},
    "avg": {"kernel": (2, 3), "pool_type": "avg"},
    "avg_pad": {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg"},
    "avg_inside": {
        "kernel": (3, 3),
        "pad": (1, 1),
        "pool_type": "avg",
        "count_include_pad": False,
    },
    "avg_full": {
        "kernel": (3, 3),
        "stride": (2, 2),
        "pool_type": "avg",
        "pooling_convention": "full",
    },
    "avg_global": {"kernel": (1, 1), "global_pool": True, "pool_type": "avg"},
}
_SHAPING = tuple(
    _case(
        f"pool_{name}_{kind}",
        "quantized_pooling",
        attrs,
        {"data": _bytes(2, 3, 6, 5, dtype=kind), **_DATA_ENDS},
    )
    for name, attrs in _POOL_ATTRS.items()
    for kind in _BYTES
) + tuple(
    _case(
        f"{name}_{kind}",
        f"quantized_{name}",
        attrs,
        {"data": _bytes(2, 3, 4, dtype=kind), **_DATA_ENDS},
    )
    for name, attrs, kind in (
        ("flatten", {}, "int8"),
        ("flatten", {}, "uint8"),
        ("act", {"act_type": "relu"}, "int8"),
    )
)
_SHAPING += tuple(
    _case(
        f"concat_{first}_{second}",
        "quantized_concat",
        {"num_args": 2, "dim": 1},
        {
            "a": _bytes(2, 3, dtype=first),
            "b": _bytes(2, 4, dtype=second),
            "a_min": values([-1.5 if first == "int8" else 0.0]),
            "a_max": values([1.0]),
            "b_min": values([-0.5 if second == "int8" else 0.0]),
            "b_max": values([1.25]),
        },
        positional=True,
    )
    for first in _BYTES
    for second in _BYTES
)
_SHAPING += (
    _case(
        "embedding",
        "quantized_embedding",
        {"input_dim": 4, "output_dim": 3, "dtype": "int8"},
        {
            "data": integers(2, 3, low=-1, high=6),
            "weight": _bytes(4, 3),
            **_ends("min_weight", "max_weight"),
        },
    ),
)

_PAIR_ENDS = {
    **_ends("lhs_min", "lhs_max"),
    **_ends("rhs_min", "rhs_max", low=-3.0, high=1.0),
}
_CALIBRATED = {"min_calib_range": -4.0, "max_calib_range": 5.0}
_ARITHMETIC = tuple(
    _case(
        f"add_{first}_{second}_{len(attrs)}",
        "quantized_elemwise_add",
        attrs,
        {"lhs": _bytes(3, 5, dtype=first), "rhs": _bytes(3, 5, dtype=second), **_PAIR_ENDS},
        # Sums of 31 bits are rounded to a float's 24.
        tolerance=None if attrs else 3e-7,
    )
    for first in _BYTES
    for second in _BYTES
    for attrs in ({}, _CALIBRATED)
    # In int32, MXNet drops the uint8 operand when the types differ.
    if attrs or first == second
) + tuple(
    _case(
        f"mul_{name}",
        "quantized_elemwise_mul",
        attrs,
        {"lhs": _bytes(3, 5), "rhs": _bytes(3, 5), **_PAIR_ENDS},
    )
    for name, attrs in (
        ("sums", {}),
        ("bytes", {"min_calib_range": -4.0, "max_calib_range": 7.0}),
        ("float", {"enable_float_output": True}),
    )
)
_ARITHMETIC += tuple(
    Case(
        f"batch_norm_{kind}_{fix_gamma}",
        "_contrib_quantized_batch_norm",
        {"eps": 0.1, "fix_gamma": fix_gamma, **_CALIBRATED},
        {"data": _bytes(2, 3, 4, 5, dtype=kind), "gamma": positive(3), "beta": (3,), **_DATA_ENDS},
        aux={"moving_mean": (3,), "moving_var": positive(3)},
        train=False,
        grads=False,
    )
    for kind in _BYTES
    for fix_gamma in (False, True)
)

_ENTROPY = tuple(
    _case(
        f"entropy_{bins}_{kept}",
        "calibrate_entropy",
        {"num_quantized_bins": kept},
        {
            "hist": values([round(1e4 / (1 + (place - bins // 2) ** 2)) for place in range(bins)]),
            "hist_edges": values([place / 10 - bins / 20 for place in range(bins + 1)]),
        },
        tolerance=2e-4,  # Sums of small differences, computed in float32 there.
    )
    for bins, kept in ((61, 7), (101, 15), (45, 9))
)

CASES = (*_ENTROPY, *_QUANTIZE, *_BACK, *_REQUANTIZE, *_LAYERS, *_SHAPING, *_ARITHMETIC)
