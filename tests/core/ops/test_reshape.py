"""Reshaping: special codes, inference in both directions, errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from core.ops import make_operator
from oracle.apply import make


def infer(op: str, data, output=None, **attrs):
    return make(op, attrs).infer_shape([data], [output])


@pytest.mark.parametrize(
    ("codes", "data", "expected"),
    [
        ("(0, -4, 2, -1, -2)", (3, 0, 5, 6), (3, 2, 0, 5, 6)),
        ("(0, -3, -2)", (3, 0, 5, 6), (3, 0, 6)),
        ("(-3, 0)", (0, 8, 5), (0, 5)),
        ("(0, -1)", (0, 8, 5), (0, 0)),
        ("(0,0)", (0, 4), (0, 4)),
        ("(-1, 1024, 1, 1)", (0, 1024), (0, 1024, 1, 1)),
        ("[2, -1]", (4, 3), (2, 6)),
        ("(-2,)", (0, 3), (0, 3)),
    ],
)
def test_codes_with_unknown_dimensions(codes: str, data, expected) -> None:
    operator = make_operator("Reshape", "node", {"shape": codes})
    assert operator.infer_shape([data], [None]) == ([data], [expected])


@pytest.mark.parametrize(
    ("attrs", "data", "output", "solved"),
    [
        ({"shape": (-1, 0)}, (0, 8), (4, 8), (4, 8)),
        ({"shape": (-1, 8)}, (0, 2, 4), (5, 8), (5, 2, 4)),
        ({"shape": (0, -3)}, (0, 2, 4), (5, 8), (5, 2, 4)),
        ({"shape": (0, -1)}, (0, 0, 4), (5, 8), (0, 0, 4)),
    ],
)
def test_data_shape_is_inferred_from_the_output(attrs, data, output, solved) -> None:
    assert infer("Reshape", data, output, **attrs)[0] == [solved]


@pytest.mark.parametrize(
    ("shape", "data", "message"),
    [
        ((4, 5), (2, 3), "20 elements.* has 6"),
        ((-1, 4), (2, 3), "not a multiple of 4"),
        ((0, 0), (3, 8, 5), "24 elements"),
        ((-1, -1), (6,), "-1 twice"),
        ((-3,), (6,), "more dimensions than data"),
        ((0, 0), (6,), "shape code 1 of"),
        ((-5,), (6,), "codes are 0 to -4"),
        ((-4, -1, -1), (6,), "expected two dimensions"),
        ((-4, 2), (6,), "expected two dimensions"),
        ((-4, 2, 4), (6,), "splits 6 into 2 x 4"),
    ],
)
def test_codes_that_do_not_fit_are_refused(shape, data, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer("Reshape", data, shape=shape)


def test_codes_that_do_not_fit_the_output_are_refused() -> None:
    with pytest.raises(ShapeError, match="more dimensions than data"):
        infer("Reshape", (10, 6), shape=(0, -4, 2, -1), reverse=True)


def test_a_shape_is_needed() -> None:
    with pytest.raises(ShapeError, match="'shape' is empty"):
        infer("Reshape", (2, 3))
    with pytest.raises(ShapeError, match="0 twice"):
        infer("Reshape", (4, 5, 2), target_shape=(0, 0))


@pytest.mark.parametrize("shape", ["(2, x)", "(2, 3", "2.5"])
def test_malformed_shapes_are_refused(shape: str) -> None:
    with pytest.raises(AttributeValueError, match=r"Reshape 'node': attribute 'shape' is"):
        make_operator("Reshape", "node", {"shape": shape})


def test_flatten_keeps_unknown_dimensions() -> None:
    assert infer("Flatten", (0, 3, 2)) == ([(0, 3, 2)], [(0, 6)])
    assert infer("Flatten", (4, 0, 2)) == ([(4, 0, 2)], [(4, 0)])
    assert infer("Flatten", (0, 3, 2), (5, 6)) == ([(5, 3, 2)], [(5, 6)])


def test_expand_dims_is_inferred_both_ways() -> None:
    assert infer("expand_dims", None, (4, 1, 3), axis=1) == ([(4, 3)], [(4, 1, 3)])
    assert infer("expand_dims", (0, 3), (4, 1, 0), axis=1) == ([(4, 3)], [(4, 1, 3)])


@pytest.mark.parametrize("axis", [3, -4])
def test_expand_dims_refuses_an_axis_out_of_range(axis: int) -> None:
    with pytest.raises(ShapeError, match=f"axis is {axis}; expected -3 to 2"):
        infer("expand_dims", (4, 2), axis=axis)


def test_squeeze_refuses_invalid_axes() -> None:
    with pytest.raises(ShapeError, match="has size 4; only 1 can be squeezed"):
        infer("squeeze", (1, 4, 1), axis=1)
    with pytest.raises(ShapeError, match="names one axis twice"):
        infer("squeeze", (1, 4, 1), axis=(0, -3))
    with pytest.raises(ShapeError, match="axis 5 is out of range"):
        infer("squeeze", (1, 4, 1), axis=5)


def test_squeeze_is_inferred_both_ways() -> None:
    assert infer("squeeze", (0, 4, 0), (4, 3), axis=0) == ([(1, 4, 3)], [(4, 3)])
    assert infer("squeeze", (0, 4, 1)) == ([(0, 4, 1)], [None])


def test_operators_that_return_views_declare_it() -> None:
    for op, attrs in (
        ("Reshape", {"shape": (-1,)}),
        ("Flatten", {}),
        ("expand_dims", {"axis": 0}),
        ("squeeze", {}),
        ("BlockGrad", {}),
        ("_copy", {}),
    ):
        assert make(op, attrs).is_view()
    assert not make("transpose", {}).is_view()


def test_reshaping_into_a_strided_output() -> None:
    operator = make("Reshape", {"shape": (3, 2)})
    wide = np.zeros((3, 4), "float32")
    data = np.arange(6, dtype="float32").reshape(2, 3)
    run = type("Run", (), {"xp": np})()
    operator.forward(run, [data], [wide[:, ::2]])
    np.testing.assert_array_equal(wide[:, ::2], [[0, 1], [2, 3], [4, 5]])


def test_reshape_like_refuses_other_sizes_and_empty_ranges() -> None:
    operator = make("reshape_like", {})
    with pytest.raises(ShapeError, match="has 6"):
        operator.infer_shape([(6,), (2, 4)], [None])
    with pytest.raises(ShapeError, match="select no range"):
        make("reshape_like", {"lhs_begin": 2, "lhs_end": 1}).infer_shape([(2, 3), (6,)], [None])
