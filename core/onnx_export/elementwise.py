"""Elementwise functions."""

from __future__ import annotations

import math

from ..ops import get_operator
from ..ops.activation import Activation, LeakyReLU
from ..ops.elemwise import Broadcast, Elementwise, Reversed, Scalar, Unary
from ..ops.elemwise_special import AddN, Clip, DivSqrtDim, HardSigmoid
from ..ops.identity import Cast
from ..ops.selection import Where
from .conversion import Call, converts
from .graph import BOOL, Tensor

_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
}


@converts(Activation)
def _activation(call: Call, op: Activation) -> str:
    return call.emit(_ACTIVATIONS[op.act_type], call.data.name)


@converts(LeakyReLU)
def _leaky_relu(call: Call, op: LeakyReLU) -> str:
    data = call.data.name
    match op.act_type:
        case "prelu":
            gamma = call.inputs[1]
            return call.emit("PRelu", data, call.viewed(gamma.name, _gamma_shape(call, gamma)))
        case "elu":
            return call.emit("Elu", data, alpha=op.slope)
        case "selu":
            return call.emit("Selu", data)
        case "gelu":
            scaled = call.emit("Mul", data, call.number(math.sqrt(0.5)))
            probability = call.emit("Add", call.emit("Erf", scaled), call.number(1))
            half = call.emit("Mul", data, call.number(0.5))
            return call.emit("Mul", half, probability)
        case "rrelu":
            return call.emit("LeakyRelu", data, alpha=(op.lower_bound + op.upper_bound) / 2)
    return call.emit("LeakyRelu", data, alpha=op.slope)


def _gamma_shape(call: Call, gamma: Tensor) -> tuple[int, ...]:
    """Return a shape in which gamma broadcasts: one number for each channel, or one for all."""
    if gamma.rank != 1 or not gamma.is_static:
        raise call.cannot(f"gamma has shape {gamma.shape}; PRelu takes one number a channel")
    channel = min(1, call.data.rank - 1)
    return tuple(gamma.shape[0] if axis == channel else 1 for axis in range(call.data.rank))


_UNARY = {
    "relu": "Relu",
    "_npx_relu": "Relu",
    "sigmoid": "Sigmoid",
    "_npx_sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softsign": "Softsign",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "abs": "Abs",
    "sign": "Sign",
    "negative": "Neg",
    "ceil": "Ceil",
    "floor": "Floor",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "arcsin": "Asin",
    "arccos": "Acos",
    "arctan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "arcsinh": "Asinh",
    "arccosh": "Acosh",
    "arctanh": "Atanh",
    "erf": "Erf",
}

_OF_WHOLE_NUMBERS = (
    *("abs", "sign", "negative", "relu", "_npx_relu", "square", "logical_not"),
    *("zeros_like", "ones_like"),
)

_TIMES = {"degrees": 180 / math.pi, "radians": math.pi / 180}
_LOGARITHMS = {"log2": math.log(2), "log10": math.log(10)}
_FILLS = {"zeros_like": 0, "ones_like": 1}


@converts(Unary)
def _unary(call: Call, op: Unary) -> str:
    name, data = op.row.names[0], call.data.name
    if call.data.dtype.kind in "iu" and name not in _OF_WHOLE_NUMBERS:
        raise call.cannot("ONNX has no such function of integers")
    if name in _UNARY:
        return call.emit(_UNARY[name], data)
    if name in _FILLS:
        return call.expanded(call.number(_FILLS[name]), call.output)
    if name in _TIMES:
        return call.emit("Mul", data, call.number(_TIMES[name]))
    if name in _LOGARITHMS:
        return call.emit("Div", call.emit("Log", data), call.number(_LOGARITHMS[name]))
    match name:
        case "square":
            return call.emit("Mul", data, data)
        case "rsqrt":
            return call.emit("Reciprocal", call.emit("Sqrt", data))
        case "log1p":
            return call.emit("Log", call.emit("Add", data, call.number(1)))
        case "expm1":
            return call.emit("Sub", call.emit("Exp", data), call.number(1))
        case "cbrt":
            root = call.emit("Pow", call.emit("Abs", data), call.number(1 / 3))
            return call.emit("Mul", call.emit("Sign", data), root)
        case "rint":  # MXNet's rounds halves down, ONNX's Round to even
            return call.emit("Ceil", call.emit("Sub", data, call.number(0.5)))
        case "round":
            size = call.emit("Abs", data)
            whole = call.emit("Floor", size)
            is_half = call.emit("GreaterOrEqual", call.emit("Sub", size, whole), call.number(0.5))
            return _with_sign(call, call.emit("Add", whole, _as_number(call, is_half)))
        case "trunc" | "fix":
            return _with_sign(call, call.emit("Floor", call.emit("Abs", data)))
        case "logical_not":
            return _as_number(call, call.emit("Not", call.is_true(call.data)))
    raise call.cannot("ONNX has no such function")


def _with_sign(call: Call, magnitude: str) -> str:
    return call.emit("Mul", call.emit("Sign", call.data.name), magnitude)


def _as_number(call: Call, condition: str) -> str:
    return call.cast(condition, call.output.dtype)


_BINARY = {
    "Add": ("elemwise_add", "_grad_add", "_npi_add"),
    "Sub": ("elemwise_sub", "_npi_subtract"),
    "Mul": ("elemwise_mul", "_npi_multiply"),
    "Div": ("elemwise_div",),
    "Pow": ("_power", "_npi_power"),
    "Max": ("_maximum",),
    "Min": ("_minimum",),
    "Equal": ("_equal",),
    "NotEqual": ("_not_equal",),
    "Greater": ("_greater",),
    "GreaterOrEqual": ("_greater_equal",),
    "Less": ("_lesser",),
    "LessOrEqual": ("_lesser_equal",),
    "And": ("_logical_and",),
    "Or": ("_logical_or",),
    "Xor": ("_logical_xor",),
    "Hypot": ("_hypot",),
    "SmoothL1": ("smooth_l1",),
}
# By identity: elementwise, broadcasting and scalar operators of one function share its row in the
# table of functions.
_KIND_OF_ROW = {
    id(getattr(get_operator(name), "row")): kind  # noqa: B009
    for kind, names in _BINARY.items()
    for name in names
}
_COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_CONNECTIVES = ("And", "Or", "Xor")


@converts(Elementwise, Broadcast)
def _two_operands(call: Call, op: Elementwise | Broadcast) -> str:
    left, right = call.inputs
    common = call.output.dtype if left.dtype != right.dtype else left.dtype
    return _combined(call, id(op.row), call.as_dtype(left, common), call.as_dtype(right, common))


@converts(Scalar)
def _with_number(call: Call, op: Scalar) -> str:
    operands = (call.as_dtype(call.data, call.output.dtype), call.number(op.scalar))
    return _combined(call, id(op.row), *(operands[::-1] if isinstance(op, Reversed) else operands))


def _combined(call: Call, row: int, a: str, b: str) -> str:
    kind = _KIND_OF_ROW.get(row)
    if kind == "NotEqual":
        return _as_number(call, call.emit("Not", call.emit("Equal", a, b)))
    if kind in _COMPARISONS:
        return _as_number(call, call.emit(kind, a, b))
    if kind in _CONNECTIVES:
        bools = (call.emit("Cast", one, to=BOOL) for one in (a, b))
        return _as_number(call, call.emit(kind, *bools))
    if kind == "Pow" and call.output.dtype.kind in "iu" and call.output.dtype.itemsize < 4:
        raise call.cannot("ONNX has no powers of short integers")
    if kind in ("Hypot", "SmoothL1") and call.output.dtype.kind in "iu":
        raise call.cannot("ONNX has no such function of integers")
    if kind == "Hypot":
        squares = (call.emit("Mul", one, one) for one in (a, b))
        return call.emit("Sqrt", call.emit("Add", *squares))
    if kind == "SmoothL1":
        return _smooth_l1(call, a, b)
    if kind is None:
        raise call.cannot("ONNX has no such function")
    return call.emit(kind, a, b)


def _smooth_l1(call: Call, data: str, sigma: str) -> str:
    size = call.emit("Abs", data)
    square = call.emit("Mul", sigma, sigma)
    turn = call.emit("Reciprocal", square)
    half = call.number(0.5)
    curve = call.emit("Mul", half, call.emit("Mul", square, call.emit("Mul", size, size)))
    line = call.emit("Sub", size, call.emit("Mul", half, turn))
    return call.emit("Where", call.emit("Less", size, turn), curve, line)


@converts(Clip)
def _clip(call: Call, op: Clip) -> str:
    if op.a_min > op.a_max:
        raise call.cannot(f"ONNX gives a_max everywhere if a_min ({op.a_min}) is above it")
    return call.emit("Clip", call.data.name, call.number(op.a_min), call.number(op.a_max))


@converts(HardSigmoid)
def _hard_sigmoid(call: Call, op: HardSigmoid) -> str:
    return call.emit("HardSigmoid", call.data.name, alpha=op.alpha, beta=op.beta)


@converts(AddN)
def _add_n(call: Call, op: AddN) -> str:
    return call.emit("Sum", *call.names)


@converts(DivSqrtDim)
def _div_sqrt_dim(call: Call, op: DivSqrtDim) -> str:
    length = call.static_length(call.data, call.data.rank - 1)
    return call.emit("Div", call.data.name, call.number(math.sqrt(length)))


@converts(Cast)
def _cast(call: Call, op: Cast) -> str:
    return call.cast(call.data.name, call.output.dtype)


@converts(Where)
def _where(call: Call, op: Where) -> str:
    condition, x, y = call.inputs
    chosen = call.is_true(condition)
    if condition.rank < x.rank:
        ones = (1,) * (x.rank - 1)
        chosen = call.viewed(
            chosen, (*condition.shape, *ones), (*condition.dynamic, *(False for _ in ones))
        )
    return call.emit("Where", chosen, x.name, y.name)
