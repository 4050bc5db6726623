"""Correlation of two images."""

from __future__ import annotations

from typing import Any

from oracle.case import Case


def _case(name: str, **attrs: Any) -> Case:
    shape = (2, 3, 7, 8)
    return Case(name, "Correlation", attrs, {"data1": shape, "data2": shape})


CASES = (
    _case("default"),
    _case("padded", pad_size=2, max_displacement=2),
    _case("kernel", kernel_size=3, max_displacement=1, pad_size=1),
    _case("strides", max_displacement=2, stride1=2, stride2=2, pad_size=3),
    _case("odd_stride", max_displacement=3, stride2=2, stride1=3, pad_size=4, kernel_size=3),
    _case("difference", is_multiply=False, max_displacement=1, pad_size=1),
    _case("difference_kernel", is_multiply=False, kernel_size=3, pad_size=2, max_displacement=2),
)
