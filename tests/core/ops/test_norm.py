"""Normalizations: moving statistics, dtypes, inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import ShapeError, TypeInferenceError
from oracle.apply import apply, make

RANDOM = np.random.RandomState(3)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype("float32")


def infer(op: str, data, *vectors, **attrs):
    operator = make(op, attrs)
    count = len(operator.input_names())
    inputs = [data, *vectors, *[None] * (count - 1 - len(vectors))]
    return operator.infer_shape(inputs, [None] * len(operator.output_names()))


def batch_norm_inputs() -> list[np.ndarray]:
    return [normal(4, 3, 2), normal(3), normal(3), normal(3), np.abs(normal(3))]


def test_forward_does_not_update_the_moving_statistics() -> None:
    inputs = batch_norm_inputs()
    before = [x.copy() for x in inputs[3:]]
    apply("BatchNorm", {}, inputs)
    np.testing.assert_array_equal(inputs[3:], before)
    apply("BatchNorm", {"momentum": 0.75}, inputs, [normal(4, 3, 2)])
    data = inputs[0]
    np.testing.assert_allclose(inputs[3], 0.75 * before[0] + 0.25 * data.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(inputs[4], 0.75 * before[1] + 0.25 * data.var((0, 2)), rtol=1e-5)


@pytest.mark.parametrize(("attrs", "train"), [({}, False), ({"use_global_stats": True}, True)])
def test_moving_statistics_in_use_are_not_updated(attrs, train) -> None:
    inputs = batch_norm_inputs()
    before = [x.copy() for x in inputs[3:]]
    apply("BatchNorm", attrs, inputs, [normal(4, 3, 2)], train=train)
    np.testing.assert_array_equal(inputs[3:], before)


def test_fixed_gamma_counts_as_one_and_is_not_changed() -> None:
    inputs = batch_norm_inputs()
    gamma = inputs[1].copy()
    fixed = apply("BatchNorm", {}, inputs, [normal(4, 3, 2)])
    np.testing.assert_array_equal(inputs[1], gamma)
    np.testing.assert_array_equal(fixed.grads[1], 0)
    ones = [inputs[0], np.ones(3, "float32"), *inputs[2:]]
    free = apply("BatchNorm", {"fix_gamma": False}, ones)
    np.testing.assert_array_equal(fixed.outputs[0], free.outputs[0])


def test_parameters_are_float32_for_float16_data() -> None:
    half, single = np.dtype("float16"), np.dtype("float32")
    operator = make("BatchNorm", {})
    assert operator.infer_type([half, *[None] * 4], [None] * 3) == (
        [half, *[single] * 4],
        [half, single, single],
    )
    with pytest.raises(TypeInferenceError, match="gamma has dtype float16, expected float32"):
        operator.infer_type([half, half, None, None, None], [None] * 3)


def test_shapes_are_inferred_from_data() -> None:
    got = infer("BatchNorm", (0, 3, 8))
    assert got == ([(0, 3, 8), (3,), (3,), (3,), (3,)], [(0, 3, 8), (3,), (3,)])
    assert infer("LayerNorm", (2, 3, 0))[0] == [(2, 3, 0), (0,), (0,)]
    assert infer("GroupNorm", None, (2,)) == ([None, (2,), None], [None] * 3)


def test_initial_statistics_match_mxnets() -> None:
    assert make("BatchNorm", {}).variable_initializers() == {
        "moving_mean": '["zero", {}]',
        "moving_var": '["one", {}]',
    }


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("BatchNorm", ((2, 3), (4,)), {}, r"gamma has shape \(4,\), expected \(3,\)"),
        ("BatchNorm", ((2, 3),), {"axis": 2}, "axis 2 is out of range for 2 dimensions"),
        ("LayerNorm", ((2, 3),), {"axis": -3}, "axis -3 is out of range"),
        ("InstanceNorm", ((2,),), {}, r"expected \(batch, channels, ...\)"),
        ("GroupNorm", ((2, 4),), {}, "3 axes or more"),
        ("GroupNorm", ((2, 4, 3),), {"num_groups": 3}, "4 channels, which num_groups 3 does not"),
    ],
)
def test_contradicting_shapes_are_refused(op, shapes, attrs, message) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(op, *shapes, **attrs)
