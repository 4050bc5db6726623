"""Names that NumPy has removed since 1.16, as they were (``modserve run --old-numpy``)."""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["restore"]

_TYPES = ("bool", "int", "float", "complex", "object", "str")
"""Python's own types, which NumPy exported under their names."""

_KINDS = "buifcSUVOMm"
"""Dtype kinds in ascending rank: a scalar only counts if its kind ranks above the arrays'."""

_RENAMED = {
    "long": "int_",
    "unicode": "str_",
    "float_": "float64",
    "longfloat": "longdouble",
    "singlecomplex": "complex64",
    "complex_": "complex128",
    "cfloat": "complex128",
    "longcomplex": "clongdouble",
    "clongfloat": "clongdouble",
    "string_": "bytes_",
    "unicode_": "str_",
    "bool8": "bool_",
    "int0": "intp",
    "uint0": "uintp",
    "object0": "object_",
    "str0": "str_",
    "bytes0": "bytes_",
    "void0": "void",
    "Inf": "inf",
    "Infinity": "inf",
    "infty": "inf",
    "PINF": "inf",
    "NaN": "nan",
    "NAN": "nan",
    "product": "prod",
    "cumproduct": "cumprod",
    "alltrue": "all",
    "sometrue": "any",
    "round_": "round",
    "trapz": "trapezoid",
    "row_stack": "vstack",
    "mat": "asmatrix",
    "rank": "ndim",
    "issubclass_": "builtins.issubclass",
    "AxisError": "exceptions.AxisError",
    "ComplexWarning": "exceptions.ComplexWarning",
    "ModuleDeprecationWarning": "exceptions.ModuleDeprecationWarning",
    "RankWarning": "exceptions.RankWarning",
    "TooHardError": "exceptions.TooHardError",
    "VisibleDeprecationWarning": "exceptions.VisibleDeprecationWarning",
    "DataSource": "lib.npyio.DataSource",
    "add_newdoc": "lib.add_newdoc",
    "byte_bounds": "lib.array_utils.byte_bounds",
    "compare_chararrays": "char.compare_chararrays",
}
"""Renamed functions, and their present names."""


def restore(numpy: Any) -> None:
    """Add the removed names to NumPy; existing ones are unchanged, except for ``fromstring``."""
    removed = [
        *((name, getattr(builtins, name)) for name in _TYPES),
        *_renamed(numpy),
        *_constants(numpy).items(),
        *_functions(numpy).items(),
    ]
    for name, value in removed:
        if name not in vars(numpy):
            setattr(numpy, name, value)
    numpy.fromstring = _fromstring(numpy, numpy.fromstring)


def _renamed(numpy: Any) -> Iterator[tuple[str, Any]]:
    for old, path in _RENAMED.items():
        found: Any = numpy
        for part in path.removeprefix("builtins.").split("."):
            found = getattr(builtins if path.startswith("builtins.") else found, part, None)
        if found is not None:
            yield old, found


def _constants(numpy: Any) -> dict[str, Any]:
    numbers = numpy.sctypeDict
    return {
        "NINF": -math.inf,
        "PZERO": 0.0,
        "NZERO": -0.0,
        "math": math,
        "warnings": warnings,
        "typeDict": numbers,
        "nbytes": {kind: numpy.dtype(kind).itemsize for kind in set(numbers.values())},
        "cast": _Casts(numpy),
        "sctypes": {
            "int": [numpy.int8, numpy.int16, numpy.int32, numpy.int64],
            "uint": [numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64],
            "float": [numpy.float16, numpy.float32, numpy.float64, numpy.longdouble],
            "complex": [numpy.complex64, numpy.complex128, numpy.clongdouble],
            "others": [bool, object, bytes, str, numpy.void],
        },
    }


class _Casts:
    """``np.cast[dtype](array)``."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def __getitem__(self, dtype: Any) -> Any:
        return lambda array: self._numpy.asarray(array).astype(dtype)


def _fromstring(numpy: Any, of_texts: Any) -> Any:
    """Return a ``fromstring`` that can also read the bytes of arrays, as it once could."""

    def fromstring(
        string: Any, dtype: Any = float, count: int = -1, *, sep: str = "", **options: Any
    ) -> Any:
        if sep:
            return of_texts(string, dtype, count, sep=sep, **options)
        content = string.encode("latin1") if isinstance(string, str) else string
        return numpy.frombuffer(content, dtype, count, **options).copy()

    return fromstring


def _functions(numpy: Any) -> dict[str, Any]:
    def alen(a: Any) -> int:
        return len(a) if hasattr(a, "__len__") else 1

    def asfarray(a: Any, dtype: Any = numpy.float64) -> Any:
        is_float = numpy.issubdtype(numpy.dtype(dtype), numpy.inexact)
        return numpy.asarray(a, dtype if is_float else numpy.float64)

    def asscalar(a: Any) -> Any:
        return a.item()

    def find_common_type(array_types: Any, scalar_types: Any) -> Any:
        if not array_types or not scalar_types:
            return numpy.result_type(*array_types, *scalar_types)
        arrays, scalars = numpy.result_type(*array_types), numpy.result_type(*scalar_types)
        is_wider = _KINDS.index(scalars.kind) > _KINDS.index(arrays.kind)
        return numpy.promote_types(arrays, scalars) if is_wider else arrays

    def in1d(ar1: Any, ar2: Any, *args: Any, **options: Any) -> Any:
        return numpy.isin(numpy.ravel(ar1), ar2, *args, **options)

    def issctype(rep: Any) -> bool:
        kind = rep.type if isinstance(rep, numpy.dtype) else rep
        return isinstance(kind, type) and issubclass(kind, numpy.generic)

    def msort(a: Any) -> Any:
        return numpy.sort(a, axis=0)

    def obj2sctype(rep: Any, default: Any = None) -> Any:
        try:
            return numpy.dtype(getattr(rep, "dtype", rep)).type
        except TypeError:
            return default

    def sctype2char(sctype: Any) -> str:
        return str(numpy.dtype(sctype).char)

    made = (alen, asfarray, asscalar, find_common_type, in1d)
    return {one.__name__: one for one in (*made, issctype, msort, obj2sctype, sctype2char)}
