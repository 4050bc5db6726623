"""Pickled NumPy arrays of lists, and malicious pickles."""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import numpy as np
import pytest

from app.errors.tree import Damaged, Invalid, TooLarge
from app.files.object_arrays import read_examples

LIMIT = 1 << 20


def objects(*elements: Any) -> np.ndarray:
    array = np.empty(len(elements), object)
    for at, element in enumerate(elements):
        array[at] = element
    return array


def read(content: bytes, count: int, limit: int = LIMIT) -> Any:
    return read_examples(io.BytesIO(content), "data", count, limit)


FORMS = {
    "lists": (objects([1, 2, 3], [4, 5]), [1, 2, 3, 4, 5], [3, 2]),
    "arrays": (objects(np.arange(3, dtype=">i2"), np.ones(1, np.int16)), [0, 1, 2, 1], [3, 1]),
    "lists of NumPy's numbers": (objects([np.float32(1.5)], (2, True)), [1.5, 2, 1], [1, 2]),
    "vectors": (objects([[1, 2], [3, 4]], np.ones((1, 2))), [[1, 2], [3, 4], [1, 1]], [2, 1]),
    "one without elements": (objects([1], [], [2]), [1, 2], [1, 0, 1]),
    "columns first": (objects(np.array([[1, 2], [3, 4]], order="F")), [[[1, 2], [3, 4]]], None),
    "all alike": (objects([1, 2], [3, 4]), [[1, 2], [3, 4]], None),
    "numbers": (objects(1, 0, np.int64(1)), [1, 0, 1], None),
}


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("form", FORMS)
def test_examples_are_read_one_by_one(form: str, protocol: int) -> None:
    array, values, lengths = FORMS[form]
    found = read(pickle.dumps(array, protocol), len(array))
    np.testing.assert_array_equal(found.values, values)
    assert (None if found.lengths is None else found.lengths.tolist()) == lengths
    assert found.values.dtype.kind in "if"


def test_pickles_of_numpy_1_are_read() -> None:
    array = objects([1, 2, 3], [4, 5])
    content = pickle.dumps(array, 3).replace(b"numpy._core", b"numpy.core")
    assert read(content, 2).lengths.tolist() == [3, 2]


NO_NUMBERS = {
    "texts": objects(["a"], [1]),
    "a text": objects("ab", [1]),
    "ragged within": objects([[1], [1, 2]], [[3]]),
    "other vectors": objects([[1, 2]], [[1, 2, 3]]),
    "numbers beside lists": objects(1, [2]),
    "beyond 64 bits": objects([1 << 80], [1]),
    "objects in objects": objects(objects([1], [2, 3]), [1]),
    "too deep": objects([[[[[1]]]]], [[[[[1], [2]]]]]),
}


@pytest.mark.parametrize("what", NO_NUMBERS)
def test_invalid_examples_are_named(what: str) -> None:
    array = NO_NUMBERS[what]
    with pytest.raises(Invalid) as refused:
        read(pickle.dumps(array, 4), len(array))
    assert refused.value.field_errors()[0].field.startswith("data[")


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("code in a pickle was run",)


def stated(function: bytes) -> bytes:
    """Return a pickle that gives a function a state, which Python's unpickler would set on it."""
    return b"\x80\x02" + function + b"N}U\x0c__defaults__K\x01\x85s\x86b."


GOOD = pickle.dumps(objects([1, 2], [3]), 4)
CALL = b"cnumpy.core.multiarray\n_reconstruct\n"
HOSTILE = {
    "code": pickle.dumps(objects(Trap(), [1]), 4),
    "a known function with a state": stated(CALL),
    "a known function with a plain state": b"\x80\x02" + CALL + b"K\x01b.",
    "another function of NumPy": b"\x80\x02cnumpy\nfromfile\nU\x01x\x85R.",
    "memory by length": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.",
    "memory by number": b"\x80\x02]r\xff\xff\xff\x7f.",
    "a frame of terabytes": b"\x80\x04\x95" + struct.pack("<Q", 1 << 42) + b"N.",
    "an object": b"\x80\x02(cnumpy\nndarray\no.",
    "an extension": b"\x80\x02\x82\x01.",
    "nothing": b"",
    "cut off": GOOD[:-9],
    "more behind it": GOOD + b"x",
    "no array": pickle.dumps([[1, 2], [3]], 4),
    "another length": pickle.dumps(objects([1]), 4),
    "a matrix": pickle.dumps(np.array([[[1], [2]], [[3], None]], object)[:, :1], 4),
    "a dtype of its own": GOOD.replace(b"O8", b"Zz"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_malicious_pickles_are_refused(what: str) -> None:
    with pytest.raises(Damaged) as refused:
        read(HOSTILE[what], 2)
    assert refused.value.field_errors()[0].field == "data"


def test_a_shared_list_counts_each_time() -> None:
    one: Any = list(range(1000))
    for _ in range(3):
        one = [one] * 1000
    with pytest.raises(TooLarge):
        read(pickle.dumps(objects(one, [1]), 4), 2)
    row = np.zeros(1000)
    with pytest.raises(TooLarge):
        read(pickle.dumps(objects(*[row] * 200), 4), 200)
    assert read(pickle.dumps(objects(*[row] * 100), 4), 100).values.shape == (100, 1000)


def test_a_list_containing_itself_is_refused() -> None:
    one: Any = [1]
    one.append(one)
    with pytest.raises(Invalid):
        read(pickle.dumps(objects(one, [1]), 4), 2)
