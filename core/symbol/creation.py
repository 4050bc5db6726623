"""Symbols made of no others: variables, groups and constants, and functions of two operands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from ..attribute import AttrScope
from ..graph.nodes import Entry, Node
from ..types import dtype_code
from .arithmetic import Meaning
from .symbol import Symbol, group

__all__ = [
    "Group",
    "Variable",
    "arange",
    "eye",
    "full",
    "histogram",
    "hypot",
    "linspace",
    "maximum",
    "minimum",
    "ones",
    "pow",
    "power",
    "split_v2",
    "var",
    "zeros",
]

_STORAGE_TYPES = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}


def var(
    name: str,
    attr: Mapping[str, str] | None = None,
    shape: Sequence[int] | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    profiler_scope: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """Return a variable.

    Args:
        name: name of the variable.
        attr: attributes of the node.
        shape: its shape, unless inference is given another.
        lr_mult: factor on the learning rate.
        wd_mult: factor on the weight decay.
        dtype: its dtype, unless inference is given another.
        init: initializer, or the text that its ``dumps()`` returns.
        stype: storage type: default, row_sparse or csr.
        profiler_scope: name that profiles group it under.
        **kwargs: further attributes, named ``__like_this__``.

    Raises:
        TypeError: the name is not text.
        ValueError: a keyword does not begin and end with two underscores, or an unknown ``stype``.
    """
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    if stype is not None and stype not in _STORAGE_TYPES:
        raise ValueError(f"stype is {stype!r}; expected one of {', '.join(_STORAGE_TYPES)}")
    attrs = AttrScope.active().get(attr)
    for key, value in (
        ("__shape__", shape),
        ("__lr_mult__", lr_mult),
        ("__wd_mult__", wd_mult),
        ("__dtype__", None if dtype is None else dtype_code(dtype)),
        ("__init__", init if init is None or isinstance(init, str) else init.dumps()),
        ("__storage_type__", None if stype is None else _STORAGE_TYPES[stype]),
        ("__profiler_scope__", profiler_scope),
    ):
        if value is not None:
            attrs[key] = str(value)
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end "
                "with double underscores, e.g, __yourattr__"
            )
        attrs[key] = str(value)
    symbol = Symbol([Entry(Node(None, name), 0)])
    symbol._set_attr(**attrs)
    return symbol


Variable = var
Group = group


def zeros(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return zeros; dtype float32 by default, a 0 in the shape is left to inference."""
    return _constant("_zeros", kwargs, shape=shape, dtype=dtype)


def ones(shape: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return ones; dtype float32 by default, a 0 in the shape is left to inference."""
    return _constant("_ones", kwargs, shape=shape, dtype=dtype)


def full(shape: Any, val: float, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return an array filled with ``val``; dtype float32 by default."""
    return _constant("_full", kwargs, shape=shape, dtype=dtype, value=float(val))


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, **kwargs: Any) -> Symbol:
    """Return ones on the ``k``-th diagonal of an (N, M) array; M is N by default."""
    return _constant("_eye", kwargs, N=N, M=M, k=k, dtype=dtype)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """Return evenly spaced values in [start, stop), each ``repeat`` times.

    With one number it is the stop. ``infer_range`` lets inference decide how many there are.
    """
    return _constant(
        "_arange",
        {"name": name},
        start=start,
        stop=stop,
        step=step,
        repeat=repeat,
        infer_range=infer_range,
        dtype=dtype,
    )


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    name: str | None = None,
    dtype: Any = None,
) -> Symbol:
    """Return ``num`` evenly spaced values from start to stop, which ``endpoint`` includes."""
    return _constant(
        "_linspace",
        {"name": name},
        start=start,
        stop=stop,
        num=num,
        endpoint=endpoint,
        dtype=dtype,
    )


def _constant(function: str, kwargs: dict[str, Any], *, dtype: Any, **attributes: Any) -> Symbol:
    dtype = np.float32 if dtype is None else dtype
    return Symbol._call_operator(function, **attributes, dtype=dtype, **kwargs)


def histogram(
    a: Symbol, bins: Symbol | int = 10, range: tuple[float, float] | None = None, **kwargs: Any
) -> Symbol:
    """Return counts and edges of a histogram with edges ``bins``, or that many bins over ``range``.

    Raises:
        ValueError: ``bins`` is neither, or it is a number and ``range`` is missing.
    """
    if isinstance(bins, Symbol):
        return Symbol._call_operator("_histogram", data=a, bins=bins, **kwargs)
    if not isinstance(bins, (int, np.integer)):
        raise ValueError(f"bins is {type(bins).__name__}; expected an integer or a symbol")
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    return Symbol._call_operator("_histogram", data=a, bin_cnt=bins, range=range, **kwargs)


def split_v2(
    ary: Symbol,
    indices_or_sections: int | tuple[int, ...],
    axis: int = 0,
    squeeze_axis: bool = False,
) -> Symbol:
    """Split into equal sections, or before each of the indices given."""
    return ary.split_v2(indices_or_sections, axis, squeeze_axis)


def pow(base: Any, exp: Any) -> Any:
    """Return ``base ** exp`` of symbols or numbers."""
    meaning = _POWER if isinstance(base, Symbol) else _REVERSED_POWER
    return _two_operands(meaning, base, exp, operator.pow)


power = pow


def maximum(left: Any, right: Any) -> Any:
    """Return the elementwise maximum of symbols or numbers."""
    return _two_operands(_MAXIMUM, left, right, max)


def minimum(left: Any, right: Any) -> Any:
    """Return the elementwise minimum of symbols or numbers."""
    return _two_operands(_MINIMUM, left, right, min)


def hypot(left: Any, right: Any) -> Any:
    """Return the elementwise ``sqrt(left**2 + right**2)`` of symbols or numbers."""
    return _two_operands(_HYPOT, left, right, np.hypot)


_POWER = Meaning("_power", "_power", "_power_scalar", "_powerscalar")
_REVERSED_POWER = Meaning("_power", "_power", "_rpower_scalar", "_rpowerscalar")
_MAXIMUM = Meaning("_maximum", "_maximum", "_maximum_scalar", "_maximumscalar")
_MINIMUM = Meaning("_minimum", "_minimum", "_minimum_scalar", "_minimumscalar")
_HYPOT = Meaning("_hypot", "_hypot", "_hypot_scalar", "_hypotscalar")


def _two_operands(
    meaning: Meaning, left: Any, right: Any, of_numbers: Callable[[Any, Any], Any]
) -> Any:
    """Apply an operator to operands in either order, or compute at once with two numbers."""
    if isinstance(left, Symbol) and isinstance(right, (Symbol, Number)):
        return left._binary(meaning, right)
    if isinstance(left, Number) and isinstance(right, Symbol):
        return right._binary(meaning, left)
    if isinstance(left, Number) and isinstance(right, Number):
        return of_numbers(left, right)
    raise TypeError(f"types ({type(left)}, {type(right)}) not supported")
