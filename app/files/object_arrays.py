"""NumPy's object arrays of lists, which it pickles, read without executing the pickle.

``np.savez(file, data=np.array([[1, 2, 3], [4, 5]], dtype=object))`` is how many people save
examples that differ in length. Only lists, numbers and NumPy arrays are understood in such a
pickle: the functions it names are replaced by stand-ins that only record their arguments, and
opcodes that could do more are refused.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, ClassVar

import numpy as np
import numpy.typing as npt

from app.errors.tree import Damaged, Invalid
from app.files.dataset_limits import check_unpacked_size
from app.tensors.npy import AS_FLAT

__all__ = ["LARGEST_OBJECTS", "Examples", "read_examples"]

_OPCODES = (
    *("PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINBYTES", "BINBYTES", "BINUNICODE", "SHORT_BINUNICODE", "EMPTY_LIST", "APPEND"),
    *("APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MEMOIZE"),
)
_KINDS = "biuf"
_MOST_AXES = 4
_NUMBER_BYTES = 8
LARGEST_OBJECTS = 1 << 28
"""Most bytes of such an array in its file: Python's lists take ten times as much in memory."""
_EXPECTED = "lists or arrays of numbers, an example each"
_UNREADABLE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    UnicodeError,
    ValueError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples joined end to end.

    Attributes:
        values: of shape (sum of the lengths, ...), or (examples, ...) if all lengths are equal.
        lengths: length of each example, int64; None if all are equal.
    """

    values: npt.NDArray[Any]
    lengths: npt.NDArray[np.int64] | None

    def first(self, count: int) -> Examples:
        """Return the first examples."""
        if self.lengths is None:
            return Examples(self.values[:count], None)
        lengths = self.lengths[:count]
        return Examples(self.values[: int(lengths.sum())], lengths)


def read_examples(stream: IO[bytes], name: str, count: int, limit: int) -> Examples:
    """Read the elements of an object array.

    Args:
        stream: positioned after the header of the npy array.
        name: of the array, for errors.
        count: number of examples, from the header.
        limit: most bytes that the examples may take in memory.

    Raises:
        Damaged: it is not a pickle of such an array.
        Invalid: it holds something other than lists of numbers that differ only in length.
        TooLarge: it would take more memory than the limit.
    """
    try:
        array = _Reader(stream).load()
        elements = array.elements() if isinstance(array, _Array) else None
        rest = stream.read(1)
    except KeyError:
        raise Damaged(name, "other things than lists and numbers", _EXPECTED, AS_FLAT) from None
    except _UNREADABLE as error:
        raise Damaged(name, str(error) or type(error).__name__, _EXPECTED, AS_FLAT) from None
    if not isinstance(elements, list) or len(elements) != count or rest:
        raise Damaged(name, "a pickle of something else", f"{count:,} examples, as in the header")
    if not elements:
        raise Invalid(name, "no examples", _EXPECTED)
    budget = _Budget(limit)
    return _joined(name, [_row(one, f"{name}[{at}]", budget) for at, one in enumerate(elements)])


class _Budget:
    """What is left of the memory limit; a small file may refer to one list many times."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0

    def take(self, size: int) -> None:
        """Take bytes; raise TooLarge."""
        self._taken += size
        check_unpacked_size(self._taken, self._limit)


def _row(value: Any, place: str, budget: _Budget) -> npt.NDArray[Any]:
    try:
        if isinstance(value, _Array):
            row = value.array()
            budget.take(row.nbytes)
        else:
            row = np.asarray(_plain(value, 0, budget))
    except _UNREADABLE as error:
        raise Invalid(place, str(error) or type(error).__name__, _EXPECTED, AS_FLAT) from None
    if row.dtype.kind not in _KINDS:
        raise Invalid(place, f"elements of dtype {row.dtype}", _EXPECTED)
    return row


def _plain(value: Any, depth: int, budget: _Budget) -> Any:
    """Return nested lists of plain Python numbers."""
    if isinstance(value, _Scalar):
        return value.number()
    if isinstance(value, list | tuple):
        if depth == _MOST_AXES:
            raise ValueError(f"lists more than {_MOST_AXES} deep")
        budget.take(_NUMBER_BYTES * len(value))
        return [_plain(one, depth + 1, budget) for one in value]
    if not isinstance(value, int | float):
        raise ValueError(f"{type(value).__name__.strip('_')} among the numbers")
    return value


def _joined(name: str, rows: list[npt.NDArray[Any]]) -> Examples:
    first = next((row for row in rows if row.size), rows[0])
    for at, row in enumerate(rows):
        if (row.ndim > 0, row.shape[1:]) != (first.ndim > 0, first.shape[1:]) and row.size:
            dims = ", ".join(["any", *map(str, first.shape[1:])]) if first.ndim else ""
            raise Invalid(f"{name}[{at}]", f"shape {row.shape}", f"shape ({dims}), as before")
    if first.ndim == 0 or len({len(row) for row in rows}) == 1:
        return Examples(np.stack(rows), None)
    filled = [row if row.size else np.empty((0, *first.shape[1:]), first.dtype) for row in rows]
    return Examples(np.concatenate(filled), np.array([len(row) for row in rows], np.int64))


class _DType:
    """Stand-in for ``np.dtype(...)``."""

    __slots__ = ("_code", "_order")

    def __init__(self, code: Any) -> None:
        if not isinstance(code, str) or len(code) > 3 or code[:1] not in {*_KINDS, "O"}:
            raise ValueError(f"dtype {code!r}")
        self._code = code
        self._order = ""

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|", "="):
            raise ValueError(f"byte order {state[1]!r}")
        self._order = state[1]

    @property
    def is_object(self) -> bool:
        return self._code[0] == "O"

    def real(self) -> np.dtype[Any]:
        return np.dtype((self._order or "=") + self._code)


class _Array:
    """Stand-in for an array: its shape, dtype, and bytes or elements."""

    __slots__ = ("_content", "_dtype", "_is_fortran", "_shape")

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _DType) or any(type(one) is not int for one in shape):
            raise ValueError("an array without shape or dtype")
        self._shape: tuple[int, ...] = tuple(shape)
        self._dtype = dtype
        self._is_fortran = bool(is_fortran)
        self._content = content

    def elements(self) -> Any:
        return self._content if self._dtype.is_object and len(self._shape) == 1 else None

    def array(self) -> npt.NDArray[Any]:
        if self._dtype.is_object or not isinstance(self._content, bytes):
            raise ValueError("an array of objects")
        array = np.frombuffer(self._content, self._dtype.real())
        return array.reshape(self._shape, order="F" if self._is_fortran else "C")


class _Scalar:
    """Stand-in for one of NumPy's scalars."""

    __slots__ = ("_content", "_dtype")

    def __init__(self, dtype: Any, content: Any) -> None:
        if not isinstance(dtype, _DType) or not isinstance(content, bytes):
            raise ValueError("a number without dtype")
        self._dtype = dtype
        self._content = content

    def number(self) -> Any:
        (number,) = np.frombuffer(self._content, self._dtype.real()).tolist()
        return number


class _Function:
    """A function that a pickle may call; immutable, so that the pickle cannot alter it."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a function with a state")


def _encoded(text: Any, encoding: Any) -> bytes:
    """Protocol 2 has no bytes type: it encodes them as text."""
    if encoding != "latin1" or not isinstance(text, str):
        raise ValueError(f"text in {encoding!r}")
    return text.encode("latin1")


_NAMED = {
    ("numpy.core.multiarray", "_reconstruct"): _Function(lambda kind, shape, code: _Array()),
    ("numpy.core.multiarray", "scalar"): _Function(_Scalar),
    ("numpy", "ndarray"): _Function(lambda: _Array()),
    ("numpy", "dtype"): _Function(lambda code, align, copy: _DType(code)),
    ("_codecs", "encode"): _Function(_encoded),
}


class _Reader(pickle._Unpickler):
    """Python's own unpickler; the one in C would preallocate whatever size a pickle claims."""

    dispatch: ClassVar = {
        getattr(pickle, code)[0]: pickle._Unpickler.dispatch[getattr(pickle, code)[0]]
        for code in _OPCODES
    }

    def find_class(self, module: str, name: str) -> Any:
        found = _NAMED.get((module.replace("numpy._core", "numpy.core"), name))
        if found is None:
            raise pickle.UnpicklingError(f"a pickle with {module}.{name}")
        return found
