"""Second and third derivatives, against formulas and finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from core import autograd, nd, random
from core.errors import MXNetError
from core.ndarray import NDArray
from core.ops import Operator, canonical_names, get_operator

POINTS = np.array([[0.3, 0.6, 0.9], [0.2, 0.5, 0.8]])

Function = Callable[[NDArray], NDArray]

UNARY = "arccos arcsin arcsinh arctan arctanh cbrt cos cosh erf exp expm1 log log10 log1p log2 "
UNARY += "rcbrt reciprocal rsqrt sigmoid sin sinh softsign sqrt square tan tanh"


def dropped(x: NDArray) -> NDArray:
    """Drop the same elements on every call."""
    random.seed(3)
    return nd.Dropout(x, p=0.4)


FUNCTIONS: dict[str, Function] = {
    **{name: (lambda x, name=name: getattr(nd, name)(x)) for name in UNARY.split()},
    "abs": lambda x: nd.abs(x) * x,
    "relu": lambda x: nd.relu(x) * x,
    "arccosh": lambda x: nd.arccosh(x + 2),
    **{
        f"Activation {kind}": (lambda x, kind=kind: nd.Activation(x, act_type=kind) * x)
        for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    },
    "_plus_scalar": lambda x: (x + 2) * x,
    "_minus_scalar": lambda x: (x - 2) * x,
    "_rminus_scalar": lambda x: (2 - x) * x,
    "_mul_scalar": lambda x: x * 2 * x,
    "_div_scalar": lambda x: x / 2 * x,
    "_rdiv_scalar": lambda x: 2 / x,
    "_power_scalar": lambda x: x**3,
    "_rpower_scalar": lambda x: 3**x,
    "_maximum_scalar": lambda x: nd.maximum(x, 0.4) * x,
    "_minimum_scalar": lambda x: nd.minimum(x, 0.4) * x,
    "broadcast_add": lambda x: (x + x[0:1]) * x,
    "broadcast_sub": lambda x: (x[0:1] - x) * x,
    "broadcast_mul": lambda x: x * x[:, 0:1],
    "broadcast_div": lambda x: x / x[:, 0:1],
    "broadcast_power": lambda x: x ** x[0:1],
    "broadcast_maximum": lambda x: nd.maximum(x, x[0:1] * 1.1) * x,
    "broadcast_minimum": lambda x: nd.minimum(x, x[0:1] * 1.1) * x,
    "broadcast_hypot": lambda x: nd.broadcast_hypot(x, x[0:1]),
    "elemwise_add": lambda x: nd.elemwise_add(x, x * x),
    "elemwise_sub": lambda x: nd.elemwise_sub(x, x * x),
    "elemwise_mul": lambda x: nd.elemwise_mul(x, x * x),
    "elemwise_div": lambda x: nd.elemwise_div(x, x * x),
    "_power": lambda x: nd._internal._power(x, x),
    "_maximum": lambda x: nd._internal._maximum(x, x * x) * x,
    "_minimum": lambda x: nd._internal._minimum(x, x * x) * x,
    "_hypot_scalar": lambda x: nd._internal._hypot_scalar(x, scalar=2.0),
    "_hypot": lambda x: nd._internal._hypot(x, x * x),
    "FullyConnected": lambda x: nd.FullyConnected(x * x, x[:, 0:3] * 2, x[:, 0], num_hidden=2),
    "FullyConnected without bias": lambda x: nd.FullyConnected(
        x.reshape((2, 3, 1)) * 2, x, num_hidden=2, no_bias=True
    ),
    "Dropout": lambda x: dropped(x * x) * x,
    "clip": lambda x: nd.clip(x, 0.25, 0.7) * x,
    "smooth_l1": lambda x: nd.smooth_l1(x, scalar=1.2) * x,
    "dot": lambda x: nd.dot(x, x.T * 2),
    "dot transposed": lambda x: nd.dot(x, x * x, transpose_a=True),
    "dot transposed right": lambda x: nd.dot(x, x * x, transpose_b=True),
    "dot transposed both": lambda x: nd.dot(x, x.T, transpose_a=True, transpose_b=True),
    "batch_dot": lambda x: nd.batch_dot(x.expand_dims(0), (x * x).expand_dims(0), transpose_b=True),
    "softmax": lambda x: nd.softmax(x, axis=0),
    "log_softmax": lambda x: nd.log_softmax(x * x),
    "index": lambda x: x[0, 1:] * x[1, :2],
    "advanced index": lambda x: x[[0, 0, 1]] * x[[1, 0, 1]],
    "astype": lambda x: x.astype("float64") * x,
    "reshape": lambda x: x.reshape((3, 2)) * x.T,
    "Reshape": lambda x: nd.Reshape(x * x, shape=(3, 2)) * x.T,
    "sum": lambda x: nd.sum(x * x, axis=1) * x[:, 0],
    "mean": lambda x: nd.mean(x * x, axis=1) * x[:, 0],
    "Concat": lambda x: nd.concat(x, x * x, dim=1) * nd.concat(x, x, dim=1),
    "SliceChannel": lambda x: nd.split(x * x, num_outputs=3, axis=1)[1] * x,
    "transpose": lambda x: nd.transpose(x * x) * x.T,
    "negative": lambda x: nd.negative(x) * x,
}


def derivative(function: Function, x: NDArray) -> NDArray:
    """Return the gradient of sum(w * function(x)) for fixed weights w, recorded."""
    y = function(x)
    weights = nd.array(np.linspace(0.5, 1.5, y.size).reshape(y.shape), dtype=y.dtype)
    (gradient,) = autograd.grad(y, x, weights, create_graph=True)
    assert isinstance(gradient, NDArray)
    return gradient


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_match_differences(name: str) -> None:
    function = FUNCTIONS[name]
    x = nd.array(POINTS, dtype="float64")
    x.attach_grad()
    direction = np.linspace(-1, 1, POINTS.size).reshape(POINTS.shape)
    with autograd.record():
        slope = derivative(function, x)
    slope.backward(nd.array(direction, dtype="float64"))
    step, ahead = 1e-5, []
    for sign in (1, -1):
        moved = nd.array(POINTS + sign * step * direction, dtype="float64")
        moved.attach_grad()
        with autograd.record():
            ahead.append(derivative(function, moved).asnumpy())
    # The Hessian is symmetric: its product with a direction is how the gradient changes along it.
    expected = (ahead[0] - ahead[1]) / (2 * step)
    assert x.grad is not None
    assert np.allclose(x.grad.asnumpy(), expected, rtol=1e-4, atol=1e-6)


def has_derivative(operator: type[Operator]) -> bool:
    """Return whether an operator has a derivative, which may be a field of its row in a table."""
    row = getattr(operator, "row", None)
    fields = (getattr(row, name, None) for name in ("derivative", "partials"))
    return operator.has_derivative() and (row is None or any(one is not None for one in fields))


def test_every_operator_with_a_second_derivative_is_tested() -> None:
    tested = {name.split(" ")[0] for name in FUNCTIONS}
    assert {name for name in canonical_names() if has_derivative(get_operator(name))} <= tested


def test_a_third_derivative_matches_its_formula() -> None:
    x = nd.array([0.5, 2.0])
    x.attach_grad()
    with autograd.record():
        (first,) = autograd.grad(x**4, x, create_graph=True)
        (second,) = autograd.grad(first, x, create_graph=True)
    second.backward()
    assert np.allclose(x.grad.asnumpy(), 24 * x.asnumpy())


@pytest.mark.parametrize("function", [nd.radians, nd.negative, nd.sign, lambda x: 2 * x])
def test_a_constant_gradient_has_zero_gradient(function: Function) -> None:
    x = nd.array([0.5, 2.0])
    x.attach_grad()
    with autograd.record():
        (first,) = autograd.grad(function(x), x, create_graph=True)
    x.grad[:] = 7
    first.backward()
    assert x.grad.asnumpy().tolist() == [0, 0]


def test_the_example_in_mxnets_documentation() -> None:
    # Values from MXNet 1.9.1.
    x = nd.array([1, 2, 3, 4])
    x.attach_grad()
    with autograd.record():
        y = nd.exp(x)
        (dx,) = autograd.grad(y, [x], create_graph=True)
        z = dx * x
    z.backward()
    expected = [5.4365635, 22.167168, 80.34215, 272.99075]
    assert np.allclose(x.grad.asnumpy(), expected, rtol=1e-6)


def test_an_operator_without_a_second_derivative_fails_only_when_it_is_needed() -> None:
    x, weight = nd.ones((1, 1, 4, 4)), nd.ones((1, 1, 2, 2))
    x.attach_grad()
    with autograd.record():
        y = nd.Convolution(x, weight, num_filter=1, kernel=(2, 2), no_bias=True)
        (gradient,) = autograd.grad(y, x, create_graph=True)
        z = gradient * gradient
    assert gradient.asnumpy().max() == 4
    with pytest.raises(MXNetError, match="Convolution cannot be differentiated again"):
        z.backward()


def test_gradients_without_create_graph_are_constants() -> None:
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        (gradient,) = autograd.grad(x * x, x, retain_graph=True)
    with pytest.raises(MXNetError, match="not in a recorded"):
        gradient.backward()
