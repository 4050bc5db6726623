"""Tensors sent by callers: names, dtypes, shapes and numbers of examples."""

from __future__ import annotations

import numpy as np
import pytest

from app.errors.tree import Invalid
from app.executor.predict.inputs import (
    batch_shape,
    check_castable,
    check_names,
    check_shape,
    common_rows,
)


def fault(refused: pytest.ExceptionInfo[Invalid]) -> tuple[str, str, str]:
    (row,) = refused.value.field_errors()
    return row.field, row.got, row.expected


def test_names() -> None:
    check_names({"data": 0, "lengths": 0}, ["data", "lengths"], may_miss=False)
    check_names({"data": 0}, ["data", "lengths"], may_miss=True)
    with pytest.raises(Invalid) as refused:
        check_names({"data": 0}, ["data", "lengths"], may_miss=False)
    assert fault(refused) == ("lengths", "no tensor", "a tensor for each of data, lengths")
    with pytest.raises(Invalid) as refused:
        check_names({"date": 0}, ["data"], may_miss=True)
    assert fault(refused)[::2] == ("date", "one of data; did you mean 'data'?")


@pytest.mark.parametrize(
    ("got", "expected", "is_taken"),
    [
        ("float64", "float32", True),
        ("int64", "float16", True),
        ("bool", "float32", True),
        ("uint8", "int8", True),
        ("float32", "int32", False),
        ("int8", "bool", False),
        ("int32", "uint8", False),
    ],
)
def test_dtypes_that_lose_only_precision_are_accepted(
    got: str, expected: str, is_taken: bool
) -> None:
    if is_taken:
        check_castable("x", np.dtype(got), np.dtype(expected))
        return
    with pytest.raises(Invalid) as refused:
        check_castable("x", np.dtype(got), np.dtype(expected))
    assert fault(refused) == (
        "x",
        f"dtype {got}",
        f"dtype {expected} or one that converts to it",
    )


@pytest.mark.parametrize(
    ("got", "expected", "axis", "wanted"),
    [
        ((5, 3, 8), (64, 3, 8), 0, None),
        ((3, 9, 8), (3, 64, 8), 1, None),
        ((2, 4), (2, 4), -1, None),
        ((5, 3), (64, 3, 8), 0, "(n, 3, 8)"),
        ((5, 3, 9), (64, 3, 8), 0, "(n, 3, 8)"),
        ((4, 9, 8), (3, 64, 8), 1, "(3, n, 8)"),
        ((3, 4), (2, 4), -1, "(2, 4)"),
        ((), (64,), 0, "(n,)"),
    ],
)
def test_shapes_must_agree_except_for_the_batch(
    got: tuple[int, ...], expected: tuple[int, ...], axis: int, wanted: str | None
) -> None:
    if wanted is None:
        check_shape("x", got, expected, axis)
        return
    with pytest.raises(Invalid) as refused:
        check_shape("x", got, expected, axis)
    assert fault(refused) == ("x", f"shape {got}", f"shape {wanted}")


def test_shapes_in_error_messages() -> None:
    assert batch_shape((64, 3), 0) == "(n, 3)"
    assert batch_shape((64,), 0) == "(n,)"
    assert batch_shape((), -1) == "()"


def test_the_number_of_examples_must_agree() -> None:
    tensors = {"data": np.zeros((4, 2)), "steps": np.zeros((7, 4)), "scale": np.zeros(3)}
    axes = [("data", 0), ("steps", 1), ("scale", -1)]
    assert common_rows(tensors, axes) == 4
    assert common_rows(tensors, [("scale", -1)]) == 1
    with pytest.raises(Invalid) as refused:
        common_rows(tensors, [("data", 0), ("steps", 0)])
    assert fault(refused) == ("steps", "7 examples", "4, as in 'data'")
    with pytest.raises(Invalid) as refused:
        common_rows({"data": np.zeros((0, 2))}, [("data", 0)])
    assert fault(refused) == ("data", "no examples", "at least one")
