"""Comparisons of arrays, symbols and errors with what a test expects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ndarray import NDArray
from ..symbol import Symbol
from ..types import Array
from .tolerances import Tolerance, get_atol, get_etol, get_rtol, get_tols

__all__ = [
    "almost_equal",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "compare_ndarray_tuple",
    "same",
    "same_array",
    "same_symbol_structure",
]


def same(a: Any, b: Any) -> bool:
    """Return whether two arrays have the same shape and elements."""
    return np.array_equal(_host(a), _host(b))


def almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Return whether ``|a - b| <= atol + rtol |b|`` everywhere; by default with float64's
    tolerances.

    Raises:
        AssertionError: the shapes differ and ``use_broadcast`` is off.
    """
    a, b = _host(a), _host(b)
    if not use_broadcast:
        _check_shapes(a, b)
    return np.allclose(a, b, rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan)


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Assert that ``|a - b| <= atol + rtol |b|`` everywhere.

    Args:
        a: an NDArray, NumPy array or number.
        b: the expected value.
        rtol: relative tolerance: a number, a number by dtype, or None for the dtypes' defaults.
        atol: absolute tolerance, given likewise.
        names: names of the two in the message.
        equal_nan: whether NaN equals NaN.
        use_broadcast: whether shapes may differ if they broadcast.
        mismatches: the message lists the worst ``mismatches[0]`` elements.

    Raises:
        AssertionError: they differ; the message says where, and by how much.
    """
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = _host(a), _host(b)
    if not almost_equal(a, b, rtol, atol, equal_nan, use_broadcast):
        raise AssertionError(_describe(a, b, rtol, atol, names, equal_nan, mismatches[0]))


def assert_allclose(
    a: Any, b: Any, rtol: Tolerance = 1e-07, atol: Tolerance = 0, equal_nan: bool = True
) -> None:
    """Call ``assert_almost_equal`` with the defaults of ``numpy.testing``."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Assert that at most a fraction ``etol`` of the elements differs by more than the
    tolerance."""
    share = get_etol(etol)
    if share <= 0:
        assert_almost_equal(a, b, rtol, atol, names, equal_nan, mismatches=mismatches)
        return
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = _host(a), _host(b)
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if 1 - np.count_nonzero(close) / close.size > share:
        raise AssertionError(_describe(a, b, rtol, atol, names, equal_nan, mismatches[0]))


def assert_almost_equal_ignore_nan(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """Assert that two arrays are almost equal wherever neither is NaN."""
    a, b = np.copy(_host(a)), np.copy(_host(b))
    unknown = np.isnan(a) | np.isnan(b)
    a[unknown] = b[unknown] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_exception(
    f: Callable[..., Any], exception_type: type[BaseException], *args: Any, **kwargs: Any
) -> None:
    """Assert that ``f(*args, **kwargs)`` raises an error of this type."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} raised nothing; expected {exception_type.__name__}")


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """Assert that arrays, or nested tuples of them, are almost equal; None equals anything."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for one, other in zip(t1, t2, strict=True):
            compare_ndarray_tuple(one, other, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Return whether two NDArrays share memory, by temporarily writing to the first."""
    array1[:] += 1
    followed = same(array1, array2)
    array1[:] -= 1
    return followed and same(array1, array2)


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Return whether the nodes of two symbols have the same operators in the same order."""
    first, second = (
        [node["op"] for node in json.loads(sym.tojson())["nodes"]] for sym in (sym1, sym2)
    )
    return first == second


def _host(value: Any) -> Array:
    return value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)


def _check_shapes(a: Array, b: Array) -> None:
    if a.shape != b.shape:
        raise AssertionError(f"a.shape = {a.shape} and b.shape = {b.shape} are not equal")


def _describe(
    a: Array,
    b: Array,
    rtol: float,
    atol: float,
    names: tuple[str, str],
    equal_nan: bool,
    listed: int,
) -> str:
    a, b = np.broadcast_arrays(a, b)
    bad = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        violation = np.abs(wide_a - wide_b) / (atol + rtol * np.abs(wide_b) + 1e-20)
    violation = np.where(bad, np.where(np.isnan(violation), np.inf, violation), 0)
    worst = np.argsort(-violation, axis=None)[: max(1, min(listed, np.count_nonzero(bad)))]
    places = [np.unravel_index(flat, violation.shape) for flat in worst]
    lines = [
        f"Error {violation[at]:f} at {tuple(int(i) for i in at)}: "
        f"{names[0]}={wide_a[at]:.8f}, {names[1]}={wide_b[at]:.8f}"
        for at in places
    ]
    share = 100 * np.count_nonzero(bad) / max(1, bad.size)
    return "\n".join(
        [
            f"Error {violation[places[0]]:f} exceeds tolerance rtol={rtol:e}, atol={atol:e} "
            f"(mismatch {share:f}% of {bad.size} elements).",
            *lines,
        ]
    )
