"""BatchNorm, LayerNorm, InstanceNorm, GroupNorm, L2Normalization and LRN."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, Spec, normal, positive

_IMAGE = (4, 3, 2, 5)


def _batch_norm(
    name: str,
    data: tuple[int, ...] = _IMAGE,
    channels: int = 3,
    dtype: str = "float32",
    train: bool = True,
    numeric: bool = True,
    tolerance: float | None = None,
    op: str = "BatchNorm",
    **attrs: Any,
) -> Case:
    vector = "float64" if dtype == "float64" else "float32"
    inputs: dict[str, Spec] = {
        "data": normal(*data, loc=1.0, scale=2.0, dtype=dtype),
        "gamma": normal(channels, dtype=vector),
        "beta": normal(channels, dtype=vector),
    }
    aux: dict[str, Spec] = {
        "moving_mean": normal(channels, dtype=vector),
        "moving_var": positive(channels, dtype=vector),
    }
    # With fix_gamma, the default, MXNet overwrites gamma and gives it no gradient.
    numeric = numeric and attrs.get("fix_gamma") is False
    return Case(name, op, attrs, inputs, aux, train=train, numeric=numeric, tolerance=tolerance)


def _sample_norm(name: str, op: str, data: tuple[int, ...], length: int, **attrs: Any) -> Case:
    dtype = attrs.pop("dtype", "float32")
    inputs = {
        "data": normal(*data, loc=1.0, scale=2.0, dtype=dtype),
        "gamma": normal(length, dtype=dtype),
        "beta": normal(length, dtype=dtype),
    }
    # The statistics output passes no gradient on.
    return Case(name, op, attrs, inputs, numeric=not attrs.get("output_mean_var"))


CASES = (
    *(
        # MXNet has it only in oneDNN: four axes, float32.
        _batch_norm(name, op="_contrib_BatchNormWithReLU", train=train, **attrs)
        for name, train, attrs in (
            ("rectified", True, {"fix_gamma": False}),
            ("rectified_gamma", True, {}),
            ("rectified_global", True, {"fix_gamma": False, "use_global_stats": True}),
            ("rectified_inference", False, {"fix_gamma": False, "eps": 0.01}),
        )
    ),
    _batch_norm("sync", op="_contrib_SyncBatchNorm", key="bn", fix_gamma=False),
    _batch_norm("sync_inference", op="_contrib_SyncBatchNorm", key="bn", ndev=4, train=False),
    _batch_norm(
        "sync_statistics",
        op="_contrib_SyncBatchNorm",
        key="bn",
        fix_gamma=False,
        output_mean_var=True,
        numeric=False,
    ),
    _batch_norm(
        "sync_global",
        op="_contrib_SyncBatchNorm",
        key="bn",
        use_global_stats=True,
        fix_gamma=False,
    ),
    _batch_norm("default"),
    _batch_norm("gamma", fix_gamma=False),
    _batch_norm("gamma_eps", fix_gamma=False, eps=1e-5, momentum=0.5, cudnn_off=True),
    _batch_norm("eight_channels", (4, 8, 3, 3), 8, fix_gamma=False),
    _batch_norm("eight_channels_fixed", (4, 8, 3, 3), 8),
    _batch_norm("inference", train=False, fix_gamma=False),
    _batch_norm("inference_fixed", train=False),
    _batch_norm("global_stats", use_global_stats=True, fix_gamma=False),
    _batch_norm("global_stats_fixed", use_global_stats=True),
    _batch_norm("mean_var", output_mean_var=True, fix_gamma=False, numeric=False),
    _batch_norm("mean_var_inference", output_mean_var=True, train=False),
    _batch_norm("last_axis", (4, 2, 5, 3), axis=3, fix_gamma=False),
    _batch_norm("negative_axis", (4, 5, 3), axis=-1, fix_gamma=False),
    _batch_norm("first_axis", (3, 5), axis=0, fix_gamma=False),
    _batch_norm("two_axes", (6, 3), fix_gamma=False),
    _batch_norm("five_axes", (2, 3, 2, 2, 3), fix_gamma=False),
    # MXNet keeps momentum in float32.
    _batch_norm("float64", dtype="float64", fix_gamma=False, tolerance=1e-7),
    # MXNet rounds between its steps, so that float32 results are as inexact as float16 ones.
    _batch_norm("float16", dtype="float16", fix_gamma=False, numeric=False, tolerance=2e-3),
    _batch_norm("version_1", op="BatchNorm_v1", fix_gamma=False),
    _sample_norm("layer", "LayerNorm", (4, 3, 5), 5),
    _sample_norm("layer_axis", "LayerNorm", (4, 3, 5), 3, axis=1, eps=1e-3),
    _sample_norm("layer_first_axis", "LayerNorm", (4, 3, 5), 4, axis=-3),
    _sample_norm("layer_mean_var", "LayerNorm", (4, 3, 5), 3, axis=1, output_mean_var=True),
    _sample_norm("layer_two_axes", "LayerNorm", (4, 5), 5),
    _sample_norm("layer_float64", "LayerNorm", (4, 5), 5, dtype="float64"),
    _sample_norm("instance", "InstanceNorm", _IMAGE, 3),
    _sample_norm("instance_eps", "InstanceNorm", (2, 3, 7), 3, eps=0.1),
    _sample_norm("instance_five_axes", "InstanceNorm", (2, 3, 2, 3, 2), 3),
    _sample_norm("group", "GroupNorm", (3, 6, 2, 3), 2, num_groups=2),
    _sample_norm("group_all", "GroupNorm", (3, 4, 5), 1),
    _sample_norm("group_each", "GroupNorm", (3, 4, 5), 4, num_groups=4, eps=1e-2),
    _sample_norm("group_mean_var", "GroupNorm", (3, 4, 5), 2, num_groups=2, output_mean_var=True),
    _sample_norm("group_float64", "GroupNorm", (3, 4, 5), 2, num_groups=2, dtype="float64"),
    *(
        Case(f"length_{mode}", "L2Normalization", {"mode": mode}, {"data": normal(2, 3, 4, 2)})
        for mode in ("instance", "channel", "spatial")
    ),
    Case("length_eps", "L2Normalization", {"eps": 0.5}, {"data": normal(3, 4)}),
    Case(
        "length_float64",
        "L2Normalization",
        {"mode": "channel"},
        {"data": normal(2, 3, 4, dtype="float64")},
    ),
    Case("lrn", "LRN", {"nsize": 5, "knorm": 1.0, "alpha": 0.1}, {"data": normal(2, 7, 3, 2)}),
    Case("lrn_default", "LRN", {"nsize": 3}, {"data": normal(2, 4, 3, 2, scale=10.0)}),
    Case("lrn_wide", "LRN", {"nsize": 9, "alpha": 0.5, "beta": 0.5}, {"data": normal(1, 3, 2, 2)}),
    Case("lrn_single", "LRN", {"nsize": 1, "alpha": 0.5}, {"data": normal(1, 3, 2, 2)}),
)
