"""Consistency of a symbol on several contexts and dtypes, and of two optimizers."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray, array, random
from ..symbol import Symbol
from ..types import DType
from .comparison import assert_almost_equal, compare_ndarray_tuple
from .sparse_arrays import rand_ndarray
from .tolerances import Tolerance, default_context, get_tols

__all__ = ["check_consistency", "compare_optimizer"]


def check_consistency(
    sym: Symbol | Sequence[Symbol],
    ctx_list: Sequence[dict[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: dict[str, Any] | None = None,
    aux_params: dict[str, Any] | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    raise_on_err: bool = True,
    ground_truth: dict[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Assert that a symbol computes the same on several contexts and in several dtypes.

    Args:
        sym: the symbol, or one for each binding.
        ctx_list: arguments of ``simple_bind`` for each binding (``ctx``, shapes, ``type_dict``).
        scale: scale of the random arguments.
        grad_req: how to compute gradients; ``"null"`` compares outputs only.
        arg_params: arguments by name; random if not given.
        aux_params: auxiliary states by name; 0 if not given.
        rtol: relative tolerance; None is the dtypes' default.
        atol: absolute tolerance; None is the dtypes' default.
        raise_on_err: raise differences as errors, instead of printing them.
        ground_truth: expected outputs and gradients by name; None uses those of the most precise
            binding.
        equal_nan: whether NaN equals NaN.
        use_uniform: draw arguments from a uniform instead of a normal distribution.
        rand_type: dtype to which random arguments are rounded.

    Returns:
        the expected values, by name.
    """
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    if len(ctx_list) < 2 or len(symbols) != len(ctx_list):
        raise AssertionError(f"{len(symbols)} symbols and {len(ctx_list)} bindings to compare")
    outputs, arguments = symbols[0].list_outputs(), symbols[0].list_arguments()
    if any((s.list_outputs(), s.list_arguments()) != (outputs, arguments) for s in symbols):
        raise AssertionError("the symbols have other arguments or outputs than the first")
    bound = [s.simple_bind(grad_req=grad_req, **c) for s, c in zip(symbols, ctx_list, strict=True)]
    arg_params = dict(arg_params or {})
    _fill(bound, scale, grad_req, arg_params, aux_params or {}, use_uniform, rand_type)
    dtypes = [np.dtype(executor.outputs[0].dtype) for executor in bound]
    best = max(range(len(bound)), key=lambda i: dtypes[i].itemsize)
    differences = _Differences(rtol, atol, equal_nan, raise_on_err)

    def compare(stage: str, names: list[str], trained: bool) -> None:
        truth = ground_truth or _results(bound[best], names)
        for i, executor in enumerate(bound):
            if i != best:
                differences.check(
                    f"{stage} of binding {i} against {best}",
                    _results(executor, names),
                    truth,
                    (dtypes[i], dtypes[best]) if trained else None,
                )

    for executor in bound:
        executor.forward(is_train=False)
    compare("prediction", outputs, trained=False)
    if grad_req == "null":
        return ground_truth or _results(bound[best], outputs)
    _train(bound)
    compare("training", outputs + arguments, trained=True)
    return ground_truth or _results(bound[best], outputs + arguments)


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Assert that two optimizers update a random weight with a random gradient in the same way.

    Args:
        opt1: the reference, called with dense arrays.
        opt2: the optimizer.
        shape: shape of the weight; with a list of shapes, ``opt2`` updates all weights in one call.
        dtype: dtype of weight and gradient.
        w_stype: storage type of the second optimizer's weight.
        g_stype: storage type of its gradient.
        rtol: relative tolerance.
        atol: absolute tolerance.
        compare_states: whether to compare the states, too.
        ntensors: number of weights.
    """
    shapes = shape if isinstance(shape, list) else [shape]
    if len(shapes) != ntensors:
        raise AssertionError(f"ntensors is {ntensors}, {len(shapes)} shapes are given")
    weights = [_random(one, w_stype, dtype, density=1) for one in shapes]
    gradients = [_random(one, g_stype, dtype) for one in shapes]
    dense = [one.tostype("default").copy() for one in weights]
    states = [opt2.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
    expected = [opt1.create_state_multi_precision(i, w) for i, w in enumerate(dense)]
    if compare_states:
        compare_ndarray_tuple(tuple(expected), tuple(states))
    for i, weight in enumerate(dense):
        gradient = gradients[i].tostype("default").copy()
        opt1.update_multi_precision(i, weight, gradient, expected[i])
    if isinstance(shape, list):
        opt2.update_multi_precision(list(range(ntensors)), weights, gradients, states)
    else:
        opt2.update_multi_precision(0, weights[0], gradients[0], states[0])
    if compare_states:
        compare_ndarray_tuple(tuple(expected), tuple(states), rtol, atol)
    compare_ndarray_tuple(tuple(dense), tuple(weights), rtol, atol)


class _Differences:
    """Compares results by name; raises or prints differences."""

    def __init__(
        self, rtol: Tolerance, atol: Tolerance, equal_nan: bool, raise_on_err: bool
    ) -> None:
        self._rtol, self._atol = rtol, atol
        self._equal_nan = equal_nan
        self._raise = raise_on_err

    def check(
        self,
        title: str,
        results: dict[str, Any],
        truth: dict[str, Any],
        dtypes: tuple[DType, DType] | None,
    ) -> None:
        for name, result in results.items():
            wanted = truth[name]
            if wanted is None or result is None:
                if wanted is not result:
                    raise AssertionError(f"{title}: only one has a gradient of {name!r}")
                continue
            rtol, atol = self._rtol, self._atol
            if dtypes is not None:
                # A float32 gradient computed from float16 data has only float16's precision.
                coarse = [
                    _coarser(x.dtype, d) for x, d in zip((result, wanted), dtypes, strict=True)
                ]
                rtol, atol = get_tols(np.empty(0, coarse[0]), np.empty(0, coarse[1]), rtol, atol)
            try:
                assert_almost_equal(result, wanted, rtol, atol, equal_nan=self._equal_nan)
            except AssertionError as error:
                error.add_note(f"{title}, {name!r}")
                if self._raise:
                    raise
                traceback.print_exception(error)


def _fill(
    bound: Sequence[Any],
    scale: float,
    grad_req: Any,
    arg_params: dict[str, Any],
    aux_params: dict[str, Any],
    use_uniform: bool,
    rand_type: Any,
) -> None:
    for name, argument in sorted(bound[0].arg_dict.items()):
        if name in arg_params:
            continue
        size = argument.shape
        if use_uniform:
            drawn = np.random.uniform(-0.92 * scale, 0.92 * scale, size=size)
        else:
            drawn = np.random.normal(scale=scale, size=size)
        arg_params[name] = np.asarray(drawn).astype(rand_type)
    for executor in bound:
        for name, argument in executor.arg_dict.items():
            argument[:] = arg_params[name]
        for name, state in executor.aux_dict.items():
            state[:] = aux_params.get(name, 0)
        for gradient in executor.grad_arrays if grad_req == "add" else ():
            gradient[:] = 0


def _train(bound: Sequence[Any]) -> None:
    """Run training passes with the first binding's outputs as head gradients."""
    for executor in bound:
        executor.forward(is_train=True)
    # Rounded to the coarsest dtype of all bindings, so that all start from the same numbers.
    heads = []
    for place, output in enumerate(bound[0].outputs):
        dtype = np.dtype(output.dtype)
        for executor in bound:
            dtype = _coarser(dtype, np.dtype(executor.outputs[place].dtype))
        heads.append(output.asnumpy().astype(dtype))
    for executor in bound:
        executor.backward(
            [
                array(head, ctx=output.context, dtype=output.dtype).tostype(output.stype)
                for head, output in zip(heads, executor.outputs, strict=True)
            ]
        )


def _results(executor: Any, names: Sequence[str]) -> dict[str, Any]:
    known = {**executor.grad_dict, **executor.output_dict}
    return {name: known.get(name) for name in names}


def _coarser(first: Any, second: Any) -> DType:
    pair: Iterator[DType] = (np.dtype(one) for one in (first, second))
    return min(pair, key=lambda dtype: dtype.itemsize)


def _random(shape: Any, stype: str, dtype: Any, density: float | None = None) -> NDArray:
    if stype == "default":
        drawn: NDArray = random.uniform(shape=shape, ctx=default_context(), dtype=dtype)
    else:
        drawn = rand_ndarray(shape, stype, density=density, dtype=dtype)
    return drawn
