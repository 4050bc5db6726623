"""Names restored by ``--old-numpy`` mean what they did in NumPy 1.16."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.cli.scripts.startup import old_numpy


@pytest.fixture(scope="module")
def old() -> Any:
    """A copy of NumPy with its old names; NumPy itself is unchanged for other tests."""
    copy = SimpleNamespace(**{**vars(np), "char": np.char, "exceptions": np.exceptions})
    old_numpy.restore(copy)
    return copy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((kind.__name__, kind) for kind in (int, float, complex, object, str)),
        ("float_", np.float64),
        ("complex_", np.complex128),
        ("unicode_", np.str_),
        ("string_", np.bytes_),
        ("bool8", np.bool_),
        ("Inf", math.inf),
        ("NINF", -math.inf),
        ("PZERO", 0.0),
        ("math", math),
        ("AxisError", np.exceptions.AxisError),
        ("VisibleDeprecationWarning", np.exceptions.VisibleDeprecationWarning),
        ("product", np.prod),
        ("alltrue", np.all),
        ("sometrue", np.any),
        ("mat", np.asmatrix),
        ("rank", np.ndim),
        ("issubclass_", issubclass),
    ],
)
def test_old_names_are_restored(old: Any, name: str, value: Any) -> None:
    found = getattr(old, name)
    assert found is value or found == value


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda old: old.asscalar(np.array([2.5])), 2.5),
        (lambda old: old.alen(np.zeros((3, 2))), 3),
        (lambda old: old.alen(7), 1),
        (lambda old: old.asfarray([1, 2]).dtype, np.dtype("float64")),
        (lambda old: old.asfarray([1, 2], "float32").dtype, np.dtype("float32")),
        (lambda old: old.asfarray([1, 2], "int8").dtype, np.dtype("float64")),
        (lambda old: old.cast["int32"]([1.5, 2.5]).tolist(), [1, 2]),
        (lambda old: old.in1d([[1, 2], [3, 4]], [2, 4]).tolist(), [False, True, False, True]),
        (lambda old: old.msort(np.array([[3, 1], [2, 5]])).tolist(), [[2, 1], [3, 5]]),
        (lambda old: old.issctype(np.int32), True),
        (lambda old: old.issctype(int), False),
        (lambda old: old.obj2sctype(np.array([1.0])), np.float64),
        (lambda old: old.obj2sctype("nothing", 3), 3),
        (lambda old: old.sctype2char(np.float32), "f"),
        (lambda old: old.nbytes[np.float32], 4),
        (lambda old: np.float16 in old.sctypes["float"], True),
        (lambda old: old.find_common_type([np.float32], [np.int64]), np.dtype("float32")),
        (lambda old: old.find_common_type([np.float32], [np.float64]), np.dtype("float32")),
        (lambda old: old.find_common_type([np.int8], [np.float32]), np.dtype("float32")),
        (lambda old: old.find_common_type([], [np.int64, np.float32]), np.dtype("float64")),
        (lambda old: np.zeros(2, old.float).dtype, np.dtype("float64")),
        (lambda old: np.zeros(2, old.long).dtype, np.dtype("int64")),
    ],
)
def test_old_functions_behave_as_they_did(old: Any, call: Any, expected: Any) -> None:
    assert call(old) == expected


def test_existing_names_are_unchanged() -> None:
    before = {**vars(np), "char": np.char, "exceptions": np.exceptions, "lib": np.lib}
    copy = SimpleNamespace(**before)
    old_numpy.restore(copy)
    after = vars(copy)
    assert {name for name in before if after[name] is not before[name]} == {"fromstring"}


def test_fromstring_reads_bytes_and_texts(old: Any) -> None:
    read = old.fromstring(b"\x01\x02\xff", dtype=np.int8)
    read[0] = 5
    assert read.tolist() == [5, 2, -1]
    assert old.fromstring("\x01\x02", np.uint8, 1).tolist() == [1]
    assert old.fromstring("1, 2", dtype=int, sep=",").tolist() == [1, 2]
