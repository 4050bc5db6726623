"""Deformable convolution. With a mask, MXNet has no gradient on the CPU."""

from __future__ import annotations

from typing import Any

from oracle.case import Case, normal, uniform

_BASIC = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 4}
_STRIDED = {
    "kernel": (3, 2),
    "stride": (2, 1),
    "dilate": (1, 2),
    "pad": (2, 1),
    "num_filter": 4,
    "num_group": 2,
    "num_deformable_group": 2,
    "no_bias": True,
}


def _case(name: str, places: tuple[int, int], masked: bool, scale: float, **attrs: Any) -> Case:
    groups, size = attrs.get("num_deformable_group", 1), attrs["kernel"][0] * attrs["kernel"][1]
    inputs: dict[str, Any] = {
        "data": (2, 4, 6, 5),
        "offset": normal(2, 2 * groups * size, *places, scale=scale),
    }
    if masked:
        inputs["mask"] = uniform(2, groups * size, *places)
    inputs["weight"] = (4, 4 // attrs.get("num_group", 1), *attrs["kernel"])
    if not attrs.get("no_bias"):
        inputs["bias"] = (4,)
    op = "_contrib_ModulatedDeformableConvolution" if masked else "_contrib_DeformableConvolution"
    prefix = "modulated_" if masked else ""
    return Case(f"{prefix}{name}", op, attrs, inputs, grads=not masked)


CASES = tuple(
    case
    for masked in (False, True)
    for case in (
        _case("near", (6, 5), masked, 0.3, **_BASIC),
        _case("far", (6, 5), masked, 2.0, **_BASIC),
        _case("strided", (4, 5), masked, 0.5, **_STRIDED),
    )
)
