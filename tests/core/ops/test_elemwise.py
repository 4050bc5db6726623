"""Elementwise operators: inference, dtypes, names and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError, TypeInferenceError
from core.ops import get_operator
from core.ops.elemwise_binary import BINARY
from core.ops.elemwise_unary import UNARY
from oracle.apply import apply, make

F32, F64, I32, I64 = map(np.dtype, ("float32", "float64", "int32", "int64"))


def infer(op: str, *inputs, output=None, **attrs):
    return make(op, attrs).infer_shape(list(inputs), [output])


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("_Plus", "elemwise_add"),
        ("_plus", "elemwise_add"),
        ("_minus", "elemwise_sub"),
        ("_Mul", "elemwise_mul"),
        ("_div", "elemwise_div"),
        ("broadcast_plus", "broadcast_add"),
        ("_Maximum", "_maximum"),
        ("_Not_Equal", "_not_equal"),
        ("_GreaterEqualScalar", "_greater_equal_scalar"),
        ("_npi_maximum", "broadcast_maximum"),
    ],
)
def test_old_names_are_aliases(alias: str, name: str) -> None:
    assert get_operator(alias).names[0] == name


def test_operators_that_mxnet_distinguishes_stay_distinct() -> None:
    assert get_operator("_npx_sigmoid") is not get_operator("sigmoid")
    assert get_operator("_npi_add").names == ("_npi_add",)


def test_every_operator_documents_what_it_computes() -> None:
    for row in UNARY:
        assert row.doc in (get_operator(row.names[0]).__doc__ or "")
    for pair in BINARY:
        forms = (pair.elementwise, pair.broadcast, pair.mixed, pair.scalar, pair.reversed)
        for names in filter(None, forms):
            assert pair.doc in (get_operator(names[0]).__doc__ or "")


def test_known_dimensions_complete_each_other() -> None:
    got = infer("elemwise_add", (0, 3), None, output=(2, 0))
    assert got == ([(2, 3), (2, 3)], [(2, 3)])


def test_contradicting_shapes_name_the_input() -> None:
    with pytest.raises(ShapeError, match=r"rhs has shape \(2, 4\), expected \(2, 3\)"):
        infer("elemwise_mul", (2, 3), (2, 4))


@pytest.mark.parametrize(
    ("lhs", "rhs", "output"),
    [
        ((2, 1), (1, 3), (2, 3)),
        ((0, 3), (1, 3), (0, 3)),
        ((0, 3), (2, 3), (2, 3)),
        ((4,), (2, 3, 4), (2, 3, 4)),
        (None, (2, 3), None),
    ],
)
def test_broadcast_shapes(lhs, rhs, output) -> None:
    assert infer("broadcast_add", lhs, rhs) == ([lhs, rhs], [output])


def test_incompatible_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"lhs \(2, 3\) and rhs \(2, 4\) do not broadcast"):
        infer("broadcast_mul", (2, 3), (2, 4))


def test_dtypes_must_agree() -> None:
    with pytest.raises(TypeInferenceError, match="float64"):
        make("broadcast_add", {}).infer_type([F32, F64], [None])
    assert make("elemwise_add", {}).infer_type([None, F64], [None]) == ([F64, F64], [F64])


@pytest.mark.parametrize(
    ("data", "attrs", "output"),
    [
        (F32, {}, F32),
        (I32, {}, I32),
        (I32, {"is_int": False}, F64),
        (np.dtype("bool"), {}, I64),
        (np.dtype("bool"), {"is_int": False}, F64),
        (None, {}, None),
    ],
)
def test_dtype_of_a_scalar_form(data, attrs, output) -> None:
    operator = make("_plus_scalar", {"scalar": 1.5, **attrs})
    assert operator.infer_type([data], [None])[1] == [output]


def test_mixed_dtypes_of_numpy_operators() -> None:
    operator = make("_npi_add", {})
    assert operator.infer_type([F32, F64], [None])[1] == [F64]
    assert operator.infer_type([I64, F32], [None])[1] == [F32]
    assert operator.infer_type([None, F32], [None]) == ([F32, F32], [F32])
    with pytest.raises(TypeInferenceError, match="cast one"):
        operator.infer_type([I64, I32], [None])


def test_scalar_attributes_are_checked() -> None:
    with pytest.raises(AttributeValueError, match="'scalr' is unknown; did you mean 'scalar'"):
        make("_plus_scalar", {"scalr": 2})
    with pytest.raises(AttributeValueError, match="expected a number"):
        make("_plus_scalar", {"scalar": "two"})


def test_logarithm_of_a_small_sigmoid_is_finite() -> None:
    got = apply("sigmoid", {}, [np.float32([-30.0, -80.0])]).outputs[0]
    np.testing.assert_allclose(np.log(got), [-30.0, -80.0], rtol=1e-6)


def test_gradients_passed_through_unchanged_are_declared() -> None:
    assert make("elemwise_add", {}).passes_gradient() == ((0, 0), (0, 1))
    assert make("elemwise_sub", {}).passes_gradient() == ((0, 0),)
    assert make("_rminus_scalar", {}).passes_gradient() == ()
    assert make("broadcast_add", {}).passes_gradient() == ()


def test_backward_reads_only_what_it_needs() -> None:
    assert make("_mul_scalar", {}).backward_reads().inputs == ()
    assert make("_div_scalar", {}).backward_reads().inputs == ()
    assert make("_rdiv_scalar", {}).backward_reads().inputs == (0,)
    assert make("elemwise_mul", {}).backward_reads().inputs == (0, 1)
    assert make("exp", {}).backward_reads().outputs == (0,)
    assert make("sign", {}).gradient_inputs(1) == ()


def test_exp_is_accurate_to_float32() -> None:
    x = np.linspace(-80, 80, 20001).astype("float32")
    got = apply("exp", {}, [x]).outputs[0].astype(np.float64)
    error = np.abs(got - np.exp(x.astype(np.float64))) / np.spacing(got.astype(np.float32))
    assert error.max() < 0.5001


@pytest.mark.parametrize(
    ("op", "x", "expected"),
    [
        ("degrees", 171, 9800),
        ("radians", 100, 1.7451171875),
        ("rsqrt", 0.001, 31.609375),
        ("rcbrt", 2, 0.79345703125),
    ],
)
def test_functions_of_half_precision_round_once(op: str, x: float, expected: float) -> None:
    """Values from MXNet."""
    got = apply(op, {}, [np.float16([x])])
    assert got.outputs[0].tolist() == [expected]
