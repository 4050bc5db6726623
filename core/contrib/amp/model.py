"""Conversion of models to mixed precision, for inference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...device import Context
from ...errors import UsageError
from ...gluon import HybridBlock, SymbolBlock
from ...gluon.hybrid_block import compiled_graph
from ...module import BucketingModule
from ...ndarray import NDArray
from ...symbol import Variable
from ...symbol.symbol import Symbol
from ...types import DTYPE_NAMES
from .conversion import Precisions, converted_graph
from .target import (
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_lp16_fp32_ops,
    list_lp16_ops,
    list_widest_type_cast,
    target_of,
)

__all__ = ["convert_bucketing_module", "convert_hybrid_block", "convert_model", "convert_symbol"]

Params = Mapping[str, NDArray]
Conditions = list[tuple[str, str, list[str]]]


def convert_symbol(
    sym: Symbol,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: list[str] | None = None,
    data_names: Collection[str] | None = None,
    cast_optional_params: bool = False,
) -> Symbol:
    """Return a float32 network with casts, so that much of it is computed in half precision.

    Args:
        sym: the network.
        target_dtype: ``float16`` or ``bfloat16``.
        target_dtype_ops: operators computed in it, in place of ``list_lp16_ops``.
        fp32_ops: operators computed in float32, in place of ``list_fp32_ops``.
        conditional_fp32_ops: (operator, attribute, values with which it is computed in float32), in
            place of ``list_conditional_fp32_ops``.
        excluded_sym_names: names of nodes that are computed in float32.
        data_names: inputs that are not parameters; all without a declared dtype if None.
        cast_optional_params: expect the parameters of operators computed in half precision to be
            stored in it; otherwise the network casts them.

    Raises:
        UsageError: an operator in two lists, or in none of those of the target dtype.
    """
    if not isinstance(sym, Symbol):
        raise UsageError(f"sym is {type(sym).__name__}; expected a Symbol")
    low = target_of(target_dtype)
    low_ops = _listed("target_dtype_ops", target_dtype_ops, list_lp16_ops(low))
    float32_ops = _listed("fp32_ops", fp32_ops, list_fp32_ops(low))
    conditions = _listed(
        "conditional_fp32_ops", conditional_fp32_ops, list_conditional_fp32_ops(low)
    )
    _check_lists(low, low_ops, float32_ops, [operator for operator, _, _ in conditions])
    if data_names is None:
        declared = sym.attr_dict()
        inputs = sym.list_inputs()
        data_names = [name for name in inputs if "__dtype__" not in declared.get(name, {})]
    conditional: dict[str, dict[str, frozenset[str]]] = {}
    for operator, attribute, values in conditions:
        conditional.setdefault(operator, {})[attribute] = frozenset(values)
    precisions = Precisions(
        low=low,
        low_ops=frozenset(low_ops),
        float32_ops=frozenset(float32_ops),
        widest_ops=frozenset(list_widest_type_cast(low)),
        conditional=conditional,
        excluded=frozenset(_listed("excluded_sym_names", excluded_sym_names, [])),
        data=frozenset(data_names),
        casts_parameters=bool(cast_optional_params),
    )
    return Symbol(converted_graph(sym.heads, precisions))


def convert_model(
    sym: Symbol,
    arg_params: Params,
    aux_params: Params,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return symbol, parameters and auxiliary states of a model in mixed precision.

    See ``convert_symbol``; all inputs that are not among the parameters are data.
    """
    for name, params in (("arg_params", arg_params), ("aux_params", aux_params)):
        if not isinstance(params, Mapping):
            raise UsageError(f"{name} is {type(params).__name__}; expected a dict of arrays")
    converted = convert_symbol(
        sym,
        target_dtype,
        target_dtype_ops,
        fp32_ops,
        conditional_fp32_ops,
        excluded_sym_names,
        [name for name in sym.list_inputs() if name not in arg_params and name not in aux_params],
        cast_optional_params,
    )
    dtypes = _declared_dtypes(converted)
    return converted, _cast(arg_params, dtypes), _cast(aux_params, dtypes)


def convert_hybrid_block(
    block: HybridBlock | SymbolBlock,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: list[str] | None = None,
    ctx: Context | Sequence[Context] | None = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """Return a block in mixed precision; see ``convert_symbol``.

    Args:
        block: a ``SymbolBlock``, or a block that has been hybridized and called.
        target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
            cast_optional_params: as of ``convert_symbol``.
        ctx: devices of the new block's parameters; None for those of the old one's.

    Raises:
        UsageError: no such block, or not called yet.
    """
    traced = compiled_graph(block)
    names = traced._inputs
    converted = convert_symbol(
        traced._symbol,
        target_dtype,
        target_dtype_ops,
        fp32_ops,
        conditional_fp32_ops,
        excluded_sym_names,
        names,
        cast_optional_params,
    )
    dtypes = _declared_dtypes(converted)
    params = block.collect_params()
    values = _cast({name: param._reduce() for name, param in params.items()}, dtypes)
    found = SymbolBlock(converted, [Variable(name) for name in names])
    for name, param in found.collect_params().items():
        param.cast(dtypes.get(name, "float32"))
    if ctx is None:
        ctx = next((param.list_ctx() for param in params.values()), None)
    found.collect_params().load_dict(values, ctx, ignore_extra=True)
    return found


def convert_bucketing_module(
    bucketing_mod: BucketingModule,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    excluded_sym_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> BucketingModule:
    """Return a module whose buckets, those bound so far, are in mixed precision.

    See ``convert_symbol``. The new module is not bound yet.

    Raises:
        UsageError: no such module, or one without parameters.
    """
    if not isinstance(bucketing_mod, BucketingModule):
        raise UsageError(f"bucketing_mod is {type(bucketing_mod).__name__}; expected a module")
    if not (bucketing_mod.binded and bucketing_mod.params_initialized):
        raise UsageError("bucketing_mod has no parameters; call bind and init_params first")
    arguments, auxiliary = bucketing_mod.get_params()
    converted = {
        key: convert_model(
            module.symbol,
            arguments,
            auxiliary,
            target_dtype,
            target_dtype_ops,
            fp32_ops,
            conditional_fp32_ops,
            excluded_sym_names,
            cast_optional_params,
        )
        for key, module in bucketing_mod._buckets.items()
    }
    # All buckets share the parameters; as in MXNet those converted for the last one are taken.
    _, arguments, auxiliary = list(converted.values())[-1]
    return BucketingModule.load_dict(
        {key: symbol for key, (symbol, _, _) in converted.items()},
        sym_gen=bucketing_mod._sym_gen,
        arg_params=arguments,
        aux_params=auxiliary,
        default_bucket_key=bucketing_mod._default_bucket_key,
        logger=bucketing_mod.logger,
        context=bucketing_mod._context,
        work_load_list=bucketing_mod._work_load_list,
        fixed_param_names=bucketing_mod._fixed_param_names,
        state_names=bucketing_mod._state_names,
        group2ctxs=bucketing_mod._group2ctxs,
        compression_params=bucketing_mod._compression_params,
    )


def _listed(name: str, given: list[Any] | None, default: list[Any]) -> list[Any]:
    if given is None:
        return default
    if not isinstance(given, list):
        raise UsageError(f"{name} is {type(given).__name__}; expected a list")
    return given


def _check_lists(low: Any, low_ops: list[str], float32: list[str], conditional: list[str]) -> None:
    lists = {
        "target_dtype_ops": set(low_ops),
        "fp32_ops": set(float32),
        "conditional_fp32_ops": set(conditional),
    }
    for first, second in (
        ("target_dtype_ops", "fp32_ops"),
        ("target_dtype_ops", "conditional_fp32_ops"),
        ("fp32_ops", "conditional_fp32_ops"),
    ):
        both = lists[first] & lists[second]
        if both:
            raise UsageError(f"{first} and {second} both contain {_shown(both)}")
    allowed = {
        *list_lp16_ops(low),
        *list_fp32_ops(low),
        *list_lp16_fp32_ops(low),
        *(operator for operator, _, _ in list_conditional_fp32_ops(low)),
    }
    unknown = set().union(*lists.values()) - allowed
    if unknown:
        raise UsageError(
            f"{_shown(unknown)} cannot be chosen; choose operators of list_lp16_ops, "
            "list_fp32_ops, list_lp16_fp32_ops and list_conditional_fp32_ops"
        )


def _shown(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _declared_dtypes(symbol: Symbol) -> dict[str, str]:
    declared = symbol.attr_dict()
    return {
        name: DTYPE_NAMES[int(declared[name]["__dtype__"])]
        for name in symbol.list_inputs()
        if "__dtype__" in declared.get(name, {})
    }


def _cast(params: Params, dtypes: Mapping[str, str]) -> dict[str, NDArray]:
    return {
        name: array.astype(dtypes[name]) if name in dtypes else array
        for name, array in params.items()
    }
