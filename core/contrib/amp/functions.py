"""``init``: functions of symbols and arrays that cast their inputs."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ... import ndarray, symbol
from ...errors import did_you_mean
from ...ndarray import NDArray
from ...ops.namespace import PREFIXES
from ...ops.registry import has_operator, registered_names
from ...symbol.symbol import Symbol
from ...types import DType, to_dtype
from .loss_scaler import LossScaler
from .scaling import scaler_of_process, start
from .target import (
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_loss_output_functions,
    list_lp16_ops,
    list_lp16_use_fp32_params,
    list_widest_type_cast,
    target_of,
)

__all__ = ["init"]

Function = Callable[..., Any]
Wrap = Callable[[Function], Function]

_FLOAT32 = np.dtype("float32")
# MXNet casts arrays only between these dtypes, and leaves all others as they are.
_CAST_ON_CPU = frozenset({_FLOAT32, to_dtype("bfloat16")})
_CAST_ON_GPU = frozenset({_FLOAT32, np.dtype("float16")})


def init(
    target_dtype: Any = "float16",
    target_precision_ops: Sequence[str] | None = None,
    conditional_fp32_ops: Sequence[tuple[str, str, Sequence[str]]] | None = None,
    fp32_ops: Sequence[str] | None = None,
) -> None:
    """Compute in mixed precision from now on, in all of the process; call it before all else.

    The functions of ``mx.sym`` and ``mx.nd`` then cast their inputs. Only the first call counts.

    Args:
        target_dtype: ``float16`` or ``bfloat16``.
        target_precision_ops: operators computed in it, in place of ``list_lp16_ops``.
        conditional_fp32_ops: (operator, attribute, values with which it is computed in float32), in
            place of ``list_conditional_fp32_ops``.
        fp32_ops: operators computed in float32, in place of ``list_fp32_ops``.

    Raises:
        UsageError: another dtype. AttributeError: an operator that does not exist.
    """
    low = target_of(target_dtype)
    if scaler_of_process() is not None:
        return
    low_ops = list_lp16_ops(low) if target_precision_ops is None else target_precision_ops
    float32_ops = list_fp32_ops(low) if fp32_ops is None else fp32_ops
    conditions: Sequence[tuple[str, str, Sequence[str]]] = (
        list_conditional_fp32_ops(low) if conditional_fp32_ops is None else conditional_fp32_ops
    )
    for name in (*low_ops, *float32_ops, *(name for name, _, _ in conditions)):
        if not has_operator(name):
            known = list(registered_names())
            raise AttributeError(f"there is no operator {name!r}{did_you_mean(name, known)}")
    logging.info("Using AMP")
    kept = list_lp16_use_fp32_params(low) or {}
    scaler = start()
    for package, casting in ((symbol, _casting_symbols), (ndarray, _casting_arrays)):
        for name in low_ops:
            _replace(package, name, casting(low, kept=kept.get(name, ())))
        for name in float32_ops:
            _replace(package, name, casting(_FLOAT32))
        for name, attribute, values in conditions:
            _replace(package, name, casting(_FLOAT32, condition=(attribute, tuple(values))))
    for name in list_widest_type_cast(low):
        _replace(symbol, name, _widening_symbols)
        _replace(ndarray, name, _widening_arrays(low))
    for name in list_loss_output_functions(low):
        _replace(symbol, name, _warning_of_scale)
        _replace(ndarray, name, _scaling(scaler))


def _replace(package: ModuleType, operator: str, wrap: Wrap) -> None:
    """Replace the function of an operator in ``mx.sym`` or ``mx.nd``, if there is one."""
    module, name = _location(package, operator)
    function = getattr(module, name, None)
    if function is None:
        return
    wrapped = functools.wraps(function)(wrap(function))
    setattr(module, name, wrapped)
    if module is package:
        setattr(package.op, name, wrapped)  # `mx.nd.op` has functions of its own


def _location(package: ModuleType, operator: str) -> tuple[ModuleType, str]:
    for prefix in PREFIXES:
        is_internal = prefix == "_random_" and not operator.endswith("_like")
        if operator.startswith(prefix) and not is_internal:
            return getattr(package, prefix.strip("_")), operator.removeprefix(prefix)
    return (package._internal if operator.startswith("_") else package), operator


def _applies(condition: tuple[str, tuple[str, ...]] | None, kwargs: dict[str, Any]) -> bool:
    return condition is None or kwargs.get(condition[0]) in condition[1]


# -- symbols ------------------------------------------------------------------------------------


def _casting_symbols(
    dtype: DType, kept: Sequence[str] = (), condition: tuple[str, tuple[str, ...]] | None = None
) -> Wrap:
    def wrap(function: Function) -> Function:
        def cast(*args: Any, **kwargs: Any) -> Symbol:
            made: Symbol = function(*args, **kwargs)
            if _applies(condition, kwargs):
                _cast_inputs(made, dtype, kept)
            return made

        return cast

    return wrap


def _cast_inputs(made: Symbol, dtype: DType, kept: Sequence[str]) -> None:
    """Put casts before the inputs of a node that nothing reads yet, but not before its states."""
    node = made.heads[0].node
    assert node.op is not None
    left = {*node.op.auxiliary_names(), *filter(None, kept)}
    names = node.op.input_names()
    for index, (name, entry) in enumerate(zip(names, node.inputs, strict=True)):
        if name not in left:
            (node.inputs[index],) = symbol.amp_cast(Symbol([entry]), dtype=dtype.name).heads
            node.versions[index] = 0


def _widening_symbols(function: Function) -> Function:
    def widen(*args: Any, **kwargs: Any) -> Any:
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, Symbol)]
        if not given:
            return function(*args, **kwargs)
        cast = iter(symbol.amp_multicast(*given, num_outputs=len(given)))
        positional = [next(cast) if isinstance(one, Symbol) else one for one in args]
        named = {
            name: next(cast) if isinstance(one, Symbol) else one for name, one in kwargs.items()
        }
        return function(*positional, **named)

    return widen


def _warning_of_scale(function: Function) -> Function:
    def warn(*args: Any, **kwargs: Any) -> Any:
        logging.warning(
            "%s does not support dynamic loss scaling in symbolic and hybridized execution.",
            function.__name__,
        )
        return function(*args, **kwargs)

    return warn


# -- arrays -------------------------------------------------------------------------------------


def _casting_arrays(
    dtype: DType, kept: Sequence[str] = (), condition: tuple[str, tuple[str, ...]] | None = None
) -> Wrap:
    def wrap(function: Function) -> Function:
        def cast(*args: Any, **kwargs: Any) -> Any:
            if not _applies(condition, kwargs):
                return function(*args, **kwargs)
            wide = {index for index, name in enumerate(kept) if name}
            return function(
                *(
                    one if index in wide else _in_dtype(one, dtype)
                    for index, one in enumerate(args)
                ),
                **{
                    name: one if name in kept else _in_dtype(one, dtype)
                    for name, one in kwargs.items()
                },
            )

        return cast

    return wrap


def _in_dtype(value: Any, dtype: DType) -> Any:
    """Return an array in a dtype if MXNet casts arrays such as this one on their device."""
    if not isinstance(value, NDArray):
        return value
    present = np.dtype(value.dtype)
    castable = _CAST_ON_CPU if value.context.device_type == "cpu" else _CAST_ON_GPU
    if present == dtype or present not in castable:
        return value
    return ndarray.amp_cast(value, dtype=dtype.name)


def _widening_arrays(low: DType) -> Wrap:
    def wrap(function: Function) -> Function:
        def widen(*args: Any, **kwargs: Any) -> Any:
            given = [one for one in (*args, *kwargs.values()) if isinstance(one, NDArray)]
            if not any(np.dtype(one.dtype) == _FLOAT32 for one in given):
                return function(*args, **kwargs)

            def wide(value: Any) -> Any:
                is_low = isinstance(value, NDArray) and np.dtype(value.dtype) == low
                return ndarray.amp_cast(value, dtype="float32") if is_low else value

            return function(*map(wide, args), **{name: wide(one) for name, one in kwargs.items()})

        return widen

    return wrap


def _scaling(scaler: LossScaler) -> Wrap:
    def wrap(function: Function) -> Function:
        def scale(*args: Any, **kwargs: Any) -> Any:
            kwargs["grad_scale"] = kwargs.get("grad_scale", 1.0) * scaler.loss_scale
            return function(*args, **kwargs)

        return scale

    return wrap
