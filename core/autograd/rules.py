"""The gradients of operators in terms of operators, for gradients of gradients.

A rule gets the operator, its inputs, its outputs and the outputs' gradients, all NDArrays, and
returns the gradient of each input, or None where it does not cover the attributes. Linear operators
(``Operator.is_linear``) need none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from .. import ndarray as nd
from ..ndarray import NDArray
from ..types import Shape

__all__ = ["RULES", "Rule"]

Arrays: TypeAlias = Sequence[NDArray]
Rule: TypeAlias = Callable[[Any, Arrays, Arrays, Arrays], Sequence[NDArray | None] | None]
Factor: TypeAlias = NDArray | float

UNARY: dict[str, Callable[[NDArray, NDArray], Factor]] = {
    # The derivative of y = f(x), from x and y.
    "abs": lambda x, y: nd.sign(x),
    "arccos": lambda x, y: -1 / nd.sqrt(1 - x * x),
    "arccosh": lambda x, y: 1 / nd.sqrt(x * x - 1),
    "arcsin": lambda x, y: 1 / nd.sqrt(1 - x * x),
    "arcsinh": lambda x, y: 1 / nd.sqrt(x * x + 1),
    "arctan": lambda x, y: 1 / (x * x + 1),
    "arctanh": lambda x, y: 1 / (1 - x * x),
    "cbrt": lambda x, y: 1 / (3 * y * y),
    "cos": lambda x, y: -nd.sin(x),
    "cosh": lambda x, y: nd.sinh(x),
    "erf": lambda x, y: 2 / math.sqrt(math.pi) * nd.exp(-(x * x)),
    "exp": lambda x, y: y,
    "expm1": lambda x, y: y + 1,
    "log": lambda x, y: 1 / x,
    "log10": lambda x, y: 1 / (math.log(10) * x),
    "log1p": lambda x, y: 1 / (x + 1),
    "log2": lambda x, y: 1 / (math.log(2) * x),
    "rcbrt": lambda x, y: y / (-3 * x),
    "reciprocal": lambda x, y: -(y * y),
    "relu": lambda x, y: y > 0,
    "rsqrt": lambda x, y: y / (-2 * x),
    "sigmoid": lambda x, y: y * (1 - y),
    "sin": lambda x, y: nd.cos(x),
    "sinh": lambda x, y: nd.cosh(x),
    "softsign": lambda x, y: 1 / nd.square(1 + nd.abs(x)),
    "sqrt": lambda x, y: 0.5 / y,
    "square": lambda x, y: 2 * x,
    "tan": lambda x, y: y * y + 1,
    "tanh": lambda x, y: 1 - y * y,
}

ACTIVATION: dict[str, Callable[[NDArray, NDArray], Factor]] = {
    "relu": UNARY["relu"],
    "sigmoid": UNARY["sigmoid"],
    "tanh": UNARY["tanh"],
    "softrelu": lambda x, y: nd.sigmoid(x),
    "softsign": UNARY["softsign"],
}

SCALAR: dict[str, Callable[[NDArray, NDArray, float], Factor]] = {
    # The derivative of y = f(x, number).
    "_div_scalar": lambda x, y, s: 1 / s,
    "_maximum_scalar": lambda x, y, s: x >= s,
    "_minimum_scalar": lambda x, y, s: x <= s,
    "_minus_scalar": lambda x, y, s: 1.0,
    "_mul_scalar": lambda x, y, s: s,
    "_plus_scalar": lambda x, y, s: 1.0,
    "_power_scalar": lambda x, y, s: s * x ** (s - 1),
    "_rdiv_scalar": lambda x, y, s: -y / x,
    "_rminus_scalar": lambda x, y, s: -1.0,
    "_rpower_scalar": lambda x, y, s: y * math.log(s),
}


class Pair(NamedTuple):
    """The two derivatives of y = f(a, b)."""

    by_left: Callable[[NDArray, NDArray, NDArray], Factor]
    by_right: Callable[[NDArray, NDArray, NDArray], Factor]


BINARY: dict[str, Pair] = {
    "add": Pair(lambda a, b, y: 1.0, lambda a, b, y: 1.0),
    "sub": Pair(lambda a, b, y: 1.0, lambda a, b, y: -1.0),
    "mul": Pair(lambda a, b, y: b, lambda a, b, y: a),
    "div": Pair(lambda a, b, y: 1 / b, lambda a, b, y: -y / b),
    "power": Pair(lambda a, b, y: b * a ** (b - 1), lambda a, b, y: y * nd.log(a)),
    "maximum": Pair(lambda a, b, y: a >= b, lambda a, b, y: a < b),
    "minimum": Pair(lambda a, b, y: a <= b, lambda a, b, y: a > b),
    "hypot": Pair(lambda a, b, y: a / y, lambda a, b, y: b / y),
}


def _unary(slope: Callable[[NDArray, NDArray], Factor]) -> Rule:
    return lambda op, xs, ys, dys: [dys[0] * slope(xs[0], ys[0])]


def _scalar(slope: Callable[[NDArray, NDArray, float], Factor]) -> Rule:
    return lambda op, xs, ys, dys: [dys[0] * slope(xs[0], ys[0], op.scalar)]


def _binary(pair: Pair) -> Rule:
    def rule(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray]:
        (a, b), (y,), (dy,) = xs, ys, dys
        grads = dy * pair.by_left(a, b, y), dy * pair.by_right(a, b, y)
        return [_sum_to(grads[0], a.shape), _sum_to(grads[1], b.shape)]

    return rule


def _sum_to(grad: NDArray, shape: Shape) -> NDArray:
    """Sum over the axes along which an input of this shape was broadcast."""
    if grad.shape == shape:
        return grad
    padded = (1,) * (grad.ndim - len(shape)) + shape
    axes = tuple(
        i for i, (old, new) in enumerate(zip(padded, grad.shape, strict=True)) if old != new
    )
    return cast(NDArray, nd.sum(grad, axis=axes, keepdims=True)).reshape(shape)


def _activation(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray]:
    return [dys[0] * ACTIVATION[op.act_type](xs[0], ys[0])]


def _clip(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray]:
    return [dys[0] * (xs[0] >= op.a_min) * (xs[0] <= op.a_max)]


def _dropout(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray]:
    _, mask = ys
    return [nd.broadcast_mul(dys[0], mask)]


def _smooth_l1(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray]:
    square = op.scalar**2
    slope = nd.where(nd.abs(xs[0]) < 1 / square, square * xs[0], nd.sign(xs[0]))
    return [dys[0] * slope]


def _dot(function: str, ndim: int) -> Rule:
    def rule(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray] | None:
        (a, b), (dy,) = xs, dys
        if a.ndim != ndim or b.ndim != ndim:
            return None
        dot, left, right = getattr(nd, function), op.transpose_a, op.transpose_b
        if left:
            da = dot(b, dy, transpose_a=right, transpose_b=True)
        else:
            da = dot(dy, b, transpose_b=not right)
        if right:
            db = dot(dy, a, transpose_a=True, transpose_b=left)
        else:
            db = dot(a, dy, transpose_a=not left)
        return [da, db]

    return rule


def _fully_connected(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray]:
    x, weight = xs[0], xs[1]
    dy = dys[0].reshape((-1, weight.shape[0]))
    grads = [
        nd.dot(dy, weight).reshape(x.shape),
        nd.dot(dy, x.reshape((-1, weight.shape[1])), transpose_a=True),
    ]
    return grads if op.no_bias else [*grads, nd.sum(dy, axis=0)]


def _softmax(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray] | None:
    if len(xs) > 1 or op.temperature not in (None, 1.0) or xs[0].dtype != ys[0].dtype:
        return None
    weighted = dys[0] * ys[0]
    return [weighted - ys[0] * nd.sum(weighted, axis=op.axis, keepdims=True)]


def _log_softmax(op: Any, xs: Arrays, ys: Arrays, dys: Arrays) -> Sequence[NDArray] | None:
    if op.temperature not in (None, 1.0) or xs[0].dtype != ys[0].dtype:
        return None
    return [dys[0] - nd.exp(ys[0]) * nd.sum(dys[0], axis=op.axis, keepdims=True)]


RULES: dict[str, Rule] = {
    **{name: _unary(slope) for name, slope in UNARY.items()},
    **{name: _scalar(slope) for name, slope in SCALAR.items()},
    **{f"broadcast_{name}": _binary(pair) for name, pair in BINARY.items()},
    **{f"elemwise_{name}": _binary(BINARY[name]) for name in ("add", "sub", "mul", "div")},
    **{f"_{name}": _binary(BINARY[name]) for name in ("power", "maximum", "minimum", "hypot")},
    "Activation": _activation,
    "Dropout": _dropout,
    "FullyConnected": _fully_connected,
    "batch_dot": _dot("batch_dot", 3),
    "clip": _clip,
    "dot": _dot("dot", 2),
    "log_softmax": _log_softmax,
    "smooth_l1": _smooth_l1,
    "softmax": _softmax,
}
"""Rules by the operator's canonical name."""
