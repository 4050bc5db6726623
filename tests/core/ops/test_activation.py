"""Activations: inference, errors, and rrelu, which MXNet's CPU build cannot train."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import apply, make

DATA = np.random.RandomState(0).normal(size=(40, 50)).astype("float32")
RRELU = {"act_type": "rrelu", "lower_bound": 0.1, "upper_bound": 0.3}


def test_rrelu_draws_a_slope_for_every_element_in_training() -> None:
    head = np.full_like(DATA, 2.0)
    got = apply("LeakyReLU", RRELU, [DATA], [head, np.zeros_like(DATA)])
    output, slope = got.outputs
    assert slope.min() >= np.float32(0.1)
    assert slope.max() <= 0.3
    assert slope.mean() == pytest.approx(0.2, abs=0.01)
    np.testing.assert_array_equal(output, np.where(DATA > 0, DATA, DATA * slope))
    np.testing.assert_array_equal(got.grads[0], np.where(DATA > 0, 2, 2 * slope))


def test_rrelu_uses_the_mean_slope_in_inference() -> None:
    output, slope = apply("LeakyReLU", RRELU, [DATA], train=False).outputs
    np.testing.assert_allclose(output, np.where(DATA > 0, DATA, DATA * 0.2), rtol=1e-6)
    np.testing.assert_allclose(slope, 0.2, rtol=1e-6)


def test_rrelu_outputs_its_slopes() -> None:
    assert make("LeakyReLU", RRELU).visible_outputs() == 2
    assert make("LeakyReLU", {}).visible_outputs() == 1


def test_prelus_gamma_starts_at_a_quarter() -> None:
    operator = make("LeakyReLU", {"act_type": "prelu"})
    assert operator.input_names() == ("data", "gamma")
    assert operator.variable_initializers() == {"gamma": '["Constant", {"value": 0.25}]'}
    assert operator.infer_shape([(2, 3, 4), None], [None]) == ([(2, 3, 4), (3,)], [(2, 3, 4)])
    assert operator.infer_shape([(2, 3, 4), (1,)], [None])[0][1] == (1,)
    assert operator.infer_shape([(2, 3, 4), (2, 3)], [None])[0][1] == (2, 3)
    with pytest.raises(ShapeError, match=r"gamma has shape \(4,\), which does not broadcast"):
        operator.infer_shape([(2, 3, 4), (4,)], [None])


def test_prelu_needs_a_channel_axis() -> None:
    with pytest.raises(ShapeError, match="mode 'channel' needs 3 axes or more"):
        make("SoftmaxActivation", {"mode": "channel"}).infer_shape([(2, 3)], [None])


@pytest.mark.parametrize("op", ["Activation", "LeakyReLU"])
def test_an_unknown_function_is_refused(op: str) -> None:
    with pytest.raises(AttributeValueError, match=f"{op} 'node': attribute 'act_type' is 'reul'"):
        make(op, {"act_type": "reul"})


def test_relu_turns_nan_into_zero() -> None:
    # MXNet 1.9.1 does so in Activation, but not in relu and clip.
    data, head = (np.array(values, "float32") for values in ([np.nan, -1, 2], [3, 3, 3]))
    got = apply("Activation", {"act_type": "relu"}, [data], [head])
    np.testing.assert_array_equal(got.outputs[0], [0, 0, 2])
    np.testing.assert_array_equal(got.grads[0], [0, 0, 3])
    np.testing.assert_array_equal(apply("relu", {}, [data], [head]).outputs[0], [np.nan, 0, 2])


NAN = float("nan")


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("relu", {}, [NAN, 0, 0, 1, NAN]),
        ("Activation", {"act_type": "relu"}, [0, 0, 0, 1, NAN]),
        ("LeakyReLU", {"act_type": "leaky"}, [1, 0.25, 0.25, 1, NAN]),
        ("LeakyReLU", {"act_type": "elu"}, [1, 0.09196986, 0.25, 1, NAN]),
        ("LeakyReLU", {"act_type": "selu"}, [NAN, 0.590423, 1.7580993, 1.050701, NAN]),
        ("clip", {"a_min": 0, "a_max": 6}, [1, 0, 1, 1, 0]),
        ("hard_sigmoid", {}, [0, 0.2, 0.2, 0.2, 0]),
    ],
)
def test_gradients_at_and_of_nan_match_mxnets(op: str, attributes: dict, expected: list) -> None:
    """First the data is NaN; last the head gradient, where clip is saturated."""
    data = np.float32([NAN, -1, 0, 1, 7])
    got = apply(op, attributes, [data], [np.float32([1, 1, 1, 1, NAN])])
    np.testing.assert_allclose(got.grads[0], expected, rtol=1e-6)


def test_prelus_derivative_at_nan_is_gamma() -> None:
    data, gamma = np.float32([[NAN, -1, 2]]), np.float32([0.5, 0.5, 0.5])
    got = apply("LeakyReLU", {"act_type": "prelu"}, [data, gamma], [np.float32([[1, 1, 1]])])
    assert got.grads[0].tolist() == [[0.5, 0.5, 1]]
