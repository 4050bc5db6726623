"""Sorting: outputs, dtypes and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import apply, make

F32, F64, I32 = map(np.dtype, ("float32", "float64", "int32"))


@pytest.mark.parametrize(
    ("kind", "names", "visible"),
    [
        ("indices", ("output",), 1),
        ("mask", ("output",), 1),
        ("value", ("output0", "output1"), 1),
        ("both", ("output0", "output1"), 2),
    ],
)
def test_outputs_of_topk(kind: str, names, visible: int) -> None:
    operator = make("topk", {"ret_typ": kind})
    assert operator.output_names() == names
    assert operator.visible_outputs() == visible


def test_dtypes_of_topk() -> None:
    both = make("topk", {"ret_typ": "both", "dtype": "int32"})
    assert both.infer_type([F64], [None, None]) == ([F64], [F64, I32])
    assert make("topk", {}).infer_type([F64], [None]) == ([F64], [F32])
    assert make("topk", {"ret_typ": "mask"}).infer_type([F64], [None]) == ([F64], [F64])


def test_more_than_there_are() -> None:
    with pytest.raises(ShapeError, match="k 9 is larger than the 4 elements"):
        make("topk", {"k": 9}).infer_shape([(2, 4)], [None])
    with pytest.raises(AttributeValueError, match="minimum is 0"):
        make("topk", {"k": -1})
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        make("sort", {"axis": 2}).infer_shape([(2, 4)], [None, None])


@pytest.mark.parametrize("ascending", [True, False])
def test_equal_elements_keep_their_order(ascending: bool) -> None:
    data = np.float32([[2, 1, 2, 1, 2]])
    got = apply("argsort", {"is_ascend": ascending}, [data]).outputs[0]
    assert got.tolist() == [[1, 3, 0, 2, 4] if ascending else [0, 2, 4, 1, 3]]


def test_unsigned_numbers_sort_downwards() -> None:
    data = np.array([[0, 255, 7]], "uint8")
    assert apply("sort", {"is_ascend": False}, [data]).outputs[0].tolist() == [[255, 7, 0]]
