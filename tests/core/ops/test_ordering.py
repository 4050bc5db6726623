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


def test_k_and_axis_out_of_range_are_refused() -> None:
    with pytest.raises(ShapeError, match="k 9 is larger than the 4 elements"):
        make("topk", {"k": 9}).infer_shape([(2, 4)], [None])
    with pytest.raises(AttributeValueError, match="minimum is 0"):
        make("topk", {"k": -1})
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        make("sort", {"axis": 2}).infer_shape([(2, 4)], [None, None])


@pytest.mark.parametrize("ascending", [True, False])
def test_sorting_is_stable(ascending: bool) -> None:
    data = np.float32([[2, 1, 2, 1, 2]])
    got = apply("argsort", {"is_ascend": ascending}, [data]).outputs[0]
    assert got.tolist() == [[1, 3, 0, 2, 4] if ascending else [0, 2, 4, 1, 3]]


def test_unsigned_integers_sort_in_descending_order() -> None:
    data = np.array([[0, 255, 7]], "uint8")
    assert apply("sort", {"is_ascend": False}, [data]).outputs[0].tolist() == [[255, 7, 0]]


@pytest.mark.parametrize("values", ["distinct", "ties", "all_equal", "nan", "infinite", "integers"])
@pytest.mark.parametrize("ascending", [False, True], ids=["largest", "smallest"])
@pytest.mark.parametrize(("axis", "k"), [(-1, 1), (-1, 7), (1, 3), (None, 5)])
def test_topk_of_many_matches_a_full_sort(
    axis: int | None, k: int, ascending: bool, values: str
) -> None:
    random = np.random.RandomState(8)
    data = {
        "distinct": random.permutation(2 * 30 * 70),
        "ties": random.randint(0, 4, 2 * 30 * 70),
        "all_equal": np.ones(2 * 30 * 70),
        "nan": np.where(random.rand(2 * 30 * 70) < 0.1, np.nan, random.rand(2 * 30 * 70)),
        "infinite": random.choice([-np.inf, np.inf, 1.0], 2 * 30 * 70),
        "integers": random.randint(-9, 9, 2 * 30 * 70),
    }[values].reshape(2, 30, 70)
    data = data.astype("int32" if values == "integers" else "float32")
    attributes = {"axis": axis, "k": k, "is_ascend": ascending, "ret_typ": "both", "dtype": "int32"}
    found, places = apply("topk", attributes, [data]).outputs
    key = data if ascending else -data.astype("float64")
    # NaN sorts above everything: last of the smallest, first of the largest.
    key = np.where(np.isnan(data), np.inf if ascending else -np.inf, key)
    flat, place = (key.reshape(-1), 0) if axis is None else (key, axis)
    expected = np.take(np.argsort(flat, axis=place, kind="stable"), range(k), axis=place)
    np.testing.assert_array_equal(places, expected)
    source = data.reshape(-1) if axis is None else data
    np.testing.assert_array_equal(found, np.take_along_axis(source, expected, place))


@pytest.mark.parametrize("is_ascend", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_float32_sorts_like_a_stable_sort(axis: int, is_ascend: bool) -> None:
    """Zeros of both signs are equal, infinities come at the ends, and NaN of either sign last."""
    random = np.random.RandomState(axis)
    data = random.randint(-3, 4, (5, 6, 7)).astype("float32")
    special = np.float32([np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-45, -1e-45])
    data.flat[:96] = random.choice(special, 96)
    attributes = {"axis": axis, "is_ascend": is_ascend, "dtype": "int32"}
    (got,) = apply("argsort", attributes, [data]).outputs
    ordered = data if is_ascend else np.flip(data, axis)
    expected = np.argsort(ordered, axis=axis, kind="stable")
    if not is_ascend:
        expected = data.shape[axis] - 1 - np.flip(expected, axis)
    np.testing.assert_array_equal(got, expected)
