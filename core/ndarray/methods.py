"""The operators that arrays have as methods: ``x.sum(axis=1)`` is ``nd.sum(x, axis=1)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["OperatorMethod", "OperatorMethods"]


class OperatorMethod:
    """A method that calls the operator it is named after with the array as first input."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = f"Return ``nd.{name}`` of this array; see there for the arguments."

    def __get__(self, array: Any, owner: type) -> Callable[..., Any]:
        if array is None:
            return partial(owner._call_operator, self.name)  # type: ignore[attr-defined]
        return partial(array._call_operator, self.name, array)


class OperatorMethods:
    """Every operator method of MXNet's NDArray that has no other arguments than the operator."""

    __slots__ = ()

    abs = OperatorMethod()
    arccos = OperatorMethod()
    arccosh = OperatorMethod()
    arcsin = OperatorMethod()
    arcsinh = OperatorMethod()
    arctan = OperatorMethod()
    arctanh = OperatorMethod()
    argmax = OperatorMethod()
    argmax_channel = OperatorMethod()
    argmin = OperatorMethod()
    argsort = OperatorMethod()
    broadcast_axes = OperatorMethod()
    cbrt = OperatorMethod()
    ceil = OperatorMethod()
    clip = OperatorMethod()
    cos = OperatorMethod()
    cosh = OperatorMethod()
    degrees = OperatorMethod()
    depth_to_space = OperatorMethod()
    diag = OperatorMethod()
    exp = OperatorMethod()
    expm1 = OperatorMethod()
    fix = OperatorMethod()
    flip = OperatorMethod()
    floor = OperatorMethod()
    log = OperatorMethod()
    log10 = OperatorMethod()
    log1p = OperatorMethod()
    log2 = OperatorMethod()
    log_softmax = OperatorMethod()
    max = OperatorMethod()
    mean = OperatorMethod()
    min = OperatorMethod()
    nanprod = OperatorMethod()
    nansum = OperatorMethod()
    norm = OperatorMethod()
    one_hot = OperatorMethod()
    ones_like = OperatorMethod()
    pad = OperatorMethod()
    pick = OperatorMethod()
    prod = OperatorMethod()
    radians = OperatorMethod()
    rcbrt = OperatorMethod()
    reciprocal = OperatorMethod()
    relu = OperatorMethod()
    repeat = OperatorMethod()
    reshape_like = OperatorMethod()
    rint = OperatorMethod()
    round = OperatorMethod()
    rsqrt = OperatorMethod()
    shape_array = OperatorMethod()
    sigmoid = OperatorMethod()
    sign = OperatorMethod()
    sin = OperatorMethod()
    sinh = OperatorMethod()
    size_array = OperatorMethod()
    slice = OperatorMethod()
    slice_axis = OperatorMethod()
    slice_like = OperatorMethod()
    softmax = OperatorMethod()
    softmin = OperatorMethod()
    sort = OperatorMethod()
    space_to_depth = OperatorMethod()
    split = OperatorMethod()
    sqrt = OperatorMethod()
    square = OperatorMethod()
    sum = OperatorMethod()
    swapaxes = OperatorMethod()
    take = OperatorMethod()
    tan = OperatorMethod()
    tanh = OperatorMethod()
    tile = OperatorMethod()
    topk = OperatorMethod()
    transpose = OperatorMethod()
    trunc = OperatorMethod()
    zeros_like = OperatorMethod()
