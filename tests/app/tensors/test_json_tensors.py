"""Tensors in JSON: parsing and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from app.errors.tree import Invalid
from app.tensors.json_tensors import read_tensor


def nested(depth: int) -> list:
    value: list = [1]
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]], "float32")),
        ([True, False], np.array([1, 0], "float32")),
        (5, np.array([5], "float32")),
        ([], np.zeros(0, "float32")),
        ([[], []], np.zeros((2, 0), "float32")),
        ({"data": [1, 2, 3, 4], "shape": [2, 2]}, np.array([[1, 2], [3, 4]], "float32")),
        ({"data": [[1, 2], [3, 4]], "shape": [4]}, np.array([1, 2, 3, 4], "float32")),
        ({"data": 7, "shape": []}, np.array(7, "float32")),
        ({"data": [-1, 300], "dtype": "int16"}, np.array([-1, 300], "int16")),
        ({"data": [2**64 - 1, 0], "dtype": "uint64"}, np.array([2**64 - 1, 0], "uint64")),
        ({"data": [0, 2], "dtype": "bool"}, np.array([False, True])),
        ({"data": [], "shape": [0, 3]}, np.zeros((0, 3), "float32")),
        (nested(32), np.ones((1,) * 32, "float32")),
    ],
)
def test_valid_tensors_are_read(value: object, expected: np.ndarray) -> None:
    got = read_tensor(value, "inputs.x", "float32")
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("value", "field", "text"),
    [
        ([[1, 2], [3]], "inputs.x", "lists of equal length"),
        ([1, [2]], "inputs.x", "lists of equal length"),
        (["a"], "inputs.x", "got a, expected numbers"),
        ([[1, None]], "inputs.x", "got None, expected numbers"),
        ("abc", "inputs.x", "nested lists of numbers"),
        (None, "inputs.x", "nested lists of numbers"),
        ({}, "inputs.x.data", "got nothing"),
        ({"data": [1], "kind": 2}, "inputs.x.kind", "no field of this name"),
        ({"data": [1], "dtype": "float128"}, "inputs.x.dtype", "one of float32, float64"),
        ({"data": [1], "dtype": ["float32"]}, "inputs.x.dtype", "one of float32, float64"),
        ({"data": [1, 2], "shape": [3]}, "inputs.x.shape", "product is the 2 values"),
        ({"data": [1], "shape": [-1, -1]}, "inputs.x.shape", "sizes of at least 0"),
        ({"data": [1], "shape": [True]}, "inputs.x.shape", "sizes of at least 0"),
        ({"data": [], "shape": [0, 2**62]}, "inputs.x.shape", r"fewer than 2\*\*63 bytes"),
        ({"data": [1], "shape": [1] * 65}, "inputs.x.shape", "at most 32 axes"),
        (nested(33), "inputs.x", "at most 32 axes"),
        (nested(1000), "inputs.x", "at most 32 axes"),
        (["a" * 1000, *[""] * 1000], "inputs.x", "expected numbers"),
        ([[[1], [2]], [[3], {}]], "inputs.x", "got {}, expected numbers"),
        ({"data": [1], "shape": 1}, "inputs.x.shape", "sizes of at least 0"),
        ({"data": [1.5], "dtype": "int32"}, "inputs.x.data", "whole numbers for int32"),
        ({"data": [-1, 2**63], "dtype": "uint64"}, "inputs.x.data", "numbers out of range"),
        ({"data": [2.0, 2**63], "dtype": "uint64"}, "inputs.x.data", "whole numbers"),
        ({"data": [256], "dtype": "uint8"}, "inputs.x.data", r"0 to 255 \(uint8\)"),
        ({"data": [-1], "dtype": "uint8"}, "inputs.x.data", r"0 to 255 \(uint8\)"),
        ({"data": ["1"]}, "inputs.x.data", "got 1, expected numbers"),
    ],
)
def test_invalid_tensors_are_refused(value: object, field: str, text: str) -> None:
    with pytest.raises(Invalid, match=text) as refused:
        read_tensor(value, "inputs.x", "float32")
    assert refused.value.field_errors()[0].field == field


def test_numbers_beyond_the_dtypes_range_become_infinite() -> None:
    assert read_tensor({"data": [1e300], "dtype": "float32"}, "x", "float64")[0] == np.inf
