"""Comparison of symbols' outputs and gradients with expected numbers and finite differences.

Sparse arguments are bound as sparse; gradients are sparse if a test gives their storage type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..device import Context
from ..ndarray import NDArray, array, cast_storage, zeros
from ..symbol import Symbol, Variable
from ..symbol import op as symbol_op
from ..types import Array
from .comparison import assert_almost_equal
from .tolerances import (
    Tolerance,
    default_context,
    default_numeric_eps,
    get_tolerance,
)

__all__ = [
    "check_numeric_gradient",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "numeric_grad",
    "simple_forward",
]

Values = Mapping[str, Any] | Sequence[Any]
"""Arrays by name, or in the order of the names."""

_FLOATS = (np.float16, np.float32, np.float64)


def simple_forward(
    sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: Any
) -> Any:
    """Return a symbol's outputs as NumPy arrays, given inputs by name; a single output is not in a
    list."""
    executor = sym.bind(
        ctx or default_context(), args={name: array(value) for name, value in inputs.items()}
    )
    outputs = [output.asnumpy() for output in executor.forward(is_train=is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def check_symbolic_forward(
    sym: Symbol,
    location: Values,
    expected: Values,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Values | None = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Assert that a symbol's outputs have the expected values.

    Args:
        sym: the symbol.
        location: all its arguments, in order or by name.
        expected: its outputs, in order or by name.
        rtol: relative tolerance; None is the dtype's default.
        atol: absolute tolerance; None is the dtype's default.
        aux_states: its auxiliary states.
        ctx: where to run; None is the default context.
        equal_nan: whether NaN equals NaN.
        dtype: dtype of the arguments; ``"asnumpy"`` keeps those of the given arrays.

    Returns:
        the outputs.
    """
    ctx = ctx or default_context()
    arguments = _arguments(sym, location, ctx, dtype)
    gradients = {k: zeros(v.shape, ctx=ctx, dtype=v.dtype) for k, v in arguments.items()}
    executor = sym.bind(
        ctx, args=arguments, args_grad=gradients, aux_states=_aux(sym, aux_states, ctx, dtype)
    )
    outputs: list[NDArray] = executor.forward(is_train=False)
    names = sym.list_outputs()
    wanted = [expected[k] for k in names] if isinstance(expected, Mapping) else expected
    for name, want, output in zip(names, wanted, outputs, strict=False):
        labels = (f"EXPECTED_{name}", f"FORWARD_{name}")
        assert_almost_equal(want, output, rtol, atol, labels, equal_nan=equal_nan)
    return outputs


def check_symbolic_backward(
    sym: Symbol,
    location: Values,
    out_grads: Values | None,
    expected: Values,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Values | None = None,
    grad_req: str | Values = "write",
    ctx: Context | None = None,
    grad_stypes: Mapping[str, str | None] | Sequence[str] | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> dict[str, NDArray]:
    """Assert that the gradients of a symbol's arguments have the expected values.

    Args:
        sym: the symbol.
        location: all its arguments, in order or by name.
        out_grads: gradients of its outputs; None for losses.
        expected: gradients of its arguments.
        rtol: relative tolerance; None is the dtype's default.
        atol: absolute tolerance; None is the dtype's default.
        aux_states: its auxiliary states.
        grad_req: ``"write"``, ``"add"`` or ``"null"``, for all or each argument.
        ctx: where to run; None is the default context.
        grad_stypes: storage types of gradients by name, if not dense.
        equal_nan: whether NaN equals NaN.
        dtype: dtype of the arguments; ``"asnumpy"`` keeps those of the given arrays.

    Returns:
        the gradients by name.
    """
    ctx = ctx or default_context()
    arguments = _arguments(sym, location, ctx, dtype)
    wanted = _by_name(expected, sym.list_arguments())
    # Random, so that a gradient added instead of written, or the other way round, is noticed.
    before = {name: np.random.normal(size=wanted[name].shape) for name in sorted(wanted)}
    gradients = {
        name: array(values, ctx=ctx, dtype=arguments[name].dtype) for name, values in before.items()
    }
    _make_sparse(grad_stypes, before, gradients)
    requests = _requests(sym, grad_req)
    executor = sym.bind(
        ctx,
        args=arguments,
        args_grad=gradients,
        aux_states=_aux(sym, aux_states, ctx, dtype),
        grad_req=requests,
    )
    executor.forward(is_train=True)
    executor.backward(_head_gradients(out_grads, ctx, dtype))
    for name, want in wanted.items():
        _assert_gradient(
            requests[name],
            want,
            gradients[name],
            before[name],
            rtol,
            atol,
            (f"EXPECTED_{name}", f"BACKWARD_{name}"),
            equal_nan,
        )
    return gradients


def numeric_grad(
    executor: Any,
    location: dict[str, Array],
    aux_states: Mapping[str, Any] | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> dict[str, Array]:
    """Return the gradients of the sum of an executor's first output, by central differences.

    Args:
        executor: computes the output.
        location: values of the arguments; those of integer dtype get zeros.
        aux_states: values of the auxiliary states, reset before each pass.
        eps: distance between the two points.
        use_forward_train: whether to run training passes.
        dtype: of the arguments.
    """
    values = {name: np.array(value, order="C") for name, value in location.items()}

    def output_sum() -> float:
        for name, value in (aux_states or {}).items():
            executor.aux_dict[name][:] = value
        return float(
            executor.forward(is_train=use_forward_train)[0].asnumpy().sum(dtype=np.float64)
        )

    for name, value in values.items():
        if executor.arg_dict[name].stype == "default":
            _assign(executor.arg_dict[name], value, dtype)
    gradients = {name: np.zeros(value.shape, dtype=dtype) for name, value in values.items()}
    for name, value in values.items():
        if value.dtype.kind != "f":
            continue
        flat, target = value.reshape(-1), executor.arg_dict[name]
        for place, original in enumerate(flat.copy()):
            flat[place] = original + eps / 2
            _assign(target, value, dtype)
            above = output_sum()
            flat[place] = original - eps / 2
            _assign(target, value, dtype)
            gradients[name].reshape(-1)[place] = (above - output_sum()) / eps
            flat[place] = original
        _assign(target, value, dtype)
    return gradients


def check_numeric_gradient(
    sym: Symbol,
    location: Values,
    aux_states: Values | None = None,
    numeric_eps: Tolerance = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    grad_nodes: Sequence[str] | Mapping[str, str] | None = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: Mapping[str, str] | None = None,
    dtype: Any = np.float32,
) -> None:
    """Assert that a symbol's gradients agree with finite differences.

    The symbol's output is reduced to a scalar by random weights from [0.1, 1.1).

    Args:
        sym: the symbol, of one output.
        location: all its arguments, in order or by name.
        aux_states: its auxiliary states.
        numeric_eps: distance between the two points; by default a power of two for the dtype.
        rtol: relative tolerance; None is the dtype's default.
        atol: absolute tolerance; None is the dtype's default.
        grad_nodes: the arguments to check; a mapping gives their ``grad_req``.
        use_forward_train: whether to compute the differences by training passes.
        ctx: where to run; None is the default context.
        grad_stype_dict: storage types of gradients by name, if not dense.
        dtype: float16, float32 or float64.
    """
    ctx = ctx or default_context()
    _check_dtype(dtype, _FLOATS)
    arguments = _arguments(sym, location, ctx, dtype)
    start = {name: value.asnumpy() for name, value in arguments.items()}
    aux = _aux(sym, aux_states, ctx, dtype)
    aux_start = {name: value.asnumpy() for name, value in aux.items()} if aux else None
    nodes = sym.list_arguments() if grad_nodes is None else grad_nodes
    requests = dict(nodes) if isinstance(nodes, Mapping) else dict.fromkeys(nodes, "write")
    _, out_shapes, _ = sym.infer_shape(**{k: v.shape for k, v in arguments.items()})
    if not out_shapes:
        raise AssertionError(f"the shapes given do not determine the output's: {arguments}")
    projection = np.asarray(np.random.rand(*out_shapes[0]) + 0.1)
    arguments[_PROJECTION] = array(projection, ctx=ctx, dtype=dtype)
    before = {k: np.random.normal(0, 0.01, arguments[k].shape) for k in [*requests, _PROJECTION]}
    gradients = {k: array(v, ctx=ctx, dtype=dtype) for k, v in before.items()}
    _make_sparse(grad_stype_dict, before, gradients)
    executor = symbol_op.make_loss(sym * Variable(_PROJECTION)).bind(
        ctx, args=arguments, args_grad=gradients, grad_req=requests, aux_states=aux
    )
    output = executor.forward(is_train=True)[0]
    executor.backward()
    analytic = {name: executor.grad_dict[name].copy() for name in requests}
    eps = get_tolerance(output, numeric_eps, default_numeric_eps())
    if dtype != np.float64 and eps < 1e-5:
        raise AssertionError(f"numeric_eps {eps} is lost in the rounding of {np.dtype(dtype)}")
    numeric = numeric_grad(executor, start, aux_start, eps, use_forward_train, dtype)
    for name, request in requests.items():
        _assert_gradient(
            request,
            numeric[name],
            analytic[name],
            before[name],
            rtol,
            atol,
            (f"NUMERICAL_{name}", f"BACKWARD_{name}"),
        )


_PROJECTION = "__random_proj"


def _assert_gradient(
    request: str,
    want: Any,
    got: NDArray,
    before: Array,
    rtol: Tolerance,
    atol: Tolerance,
    names: tuple[str, str],
    equal_nan: bool = False,
) -> None:
    if request == "write":
        assert_almost_equal(want, got, rtol, atol, names, equal_nan)
    elif request == "add":
        assert_almost_equal(want, got.asnumpy() - before, rtol, atol, names, equal_nan)
    elif request == "null":
        assert_almost_equal(before, got, rtol, atol, names, equal_nan)
    else:
        raise ValueError(f"grad_req {request!r} of {names[0]}; expected write, add or null")


def _arguments(sym: Symbol, location: Values, ctx: Context, dtype: Any) -> dict[str, NDArray]:
    _check_dtype(dtype, ("asnumpy", *_FLOATS))
    names = sym.list_arguments()
    if isinstance(location, Mapping) and set(location) != set(names):
        raise ValueError(
            f"Symbol arguments and keys of the given location do not match. "
            f"symbol args: {sorted(names)}, location: {sorted(location)}"
        )
    return {k: _to_device(v, ctx, dtype) for k, v in sorted(_by_name(location, names).items())}


def _aux(sym: Symbol, states: Values | None, ctx: Context, dtype: Any) -> dict[str, NDArray] | None:
    if states is None:
        return None
    names = sym.list_auxiliary_states()
    if isinstance(states, Mapping) and set(states) != set(names):
        raise ValueError(
            f"Symbol aux_states names and given aux_states do not match. "
            f"symbol: {sorted(names)}, given: {sorted(states)}"
        )
    return {
        name: array(value, ctx=ctx, dtype=_dtype_for(value, dtype))
        for name, value in _by_name(states, names).items()
    }


def _requests(sym: Symbol, grad_req: str | Values) -> dict[str, str]:
    names = sym.list_arguments()
    if isinstance(grad_req, str):
        return dict.fromkeys(names, grad_req)
    return _by_name(grad_req, names)


def _head_gradients(out_grads: Values | None, ctx: Context, dtype: Any) -> Any:
    if out_grads is None:
        return None
    if isinstance(out_grads, Mapping):
        return {name: _to_device(value, ctx, dtype) for name, value in out_grads.items()}
    return [_to_device(value, ctx, dtype) for value in out_grads]


def _make_sparse(
    stypes: Mapping[str, str | None] | Sequence[str] | None,
    before: dict[str, Array],
    gradients: dict[str, NDArray],
) -> None:
    """Replace gradients whose storage type is given by empty sparse arrays.

    A sequence of storage types, without names, has no effect, as in MXNet.
    """
    for name, stype in stypes.items() if isinstance(stypes, Mapping) else ():
        if name in gradients and stype not in (None, "default"):
            dense = gradients[name]
            gradients[name] = zeros(dense.shape, dense.context, dense.dtype, stype)
            before[name] = np.zeros(dense.shape)


def _to_device(value: Any, ctx: Context, dtype: Any) -> Any:
    if isinstance(value, NDArray):
        return value.copy()
    return array(value, ctx=ctx, dtype=_dtype_for(value, dtype))


def _dtype_for(value: Any, dtype: Any) -> Any:
    return value.dtype if isinstance(dtype, str) else dtype


def _check_dtype(dtype: Any, allowed: Sequence[Any]) -> None:
    if dtype not in allowed:
        raise AssertionError(f"dtype is {dtype!r}; expected one of {list(allowed)}")


def _by_name(values: Values, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(values, Mapping):
        return dict(values)
    return dict(zip(names, values, strict=False))


def _assign(target: Any, value: Array, dtype: Any) -> None:
    target[:] = cast_storage(array(value, dtype=dtype), target.stype)
