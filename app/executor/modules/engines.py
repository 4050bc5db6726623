"""Makes the engine's module for each kind of record, after checking the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.domain.module import ModuleKind, ModuleRecord
from app.errors.quoting import did_you_mean
from app.errors.tree import Invalid
from app.executor.faults import client_fault
from app.executor.modules.engine_optimizer import Engine
from core import kvstore
from core.device import Context
from core.module import BucketingModule, DetectionModule, Module, MutableModule
from core.symbol import Symbol

__all__ = ["check_kind", "fixed_names", "make_engine"]

SymbolOf = Callable[[Any], tuple[Symbol, list[str], list[str]]]

_BY_PATTERN = (ModuleKind.MUTABLE, ModuleKind.DETECTION)
_NOT_OF_THESE = ("fixed_param_names", "state_names", "compression_params")


def check_kind(record: ModuleRecord, symbol: Symbol) -> None:
    """Raise unless a record's options suit its kind and its symbol.

    Raises:
        Invalid, HostError: names the field.
    """
    if record.kind in _BY_PATTERN:
        for field in _NOT_OF_THESE:
            if value := getattr(record, field):
                hint = "use fixed_param_patterns" if field == "fixed_param_names" else ""
                raise Invalid(field, value, f"none for a module of kind {record.kind}", hint)
    if record.excluded_param_patterns and record.kind is ModuleKind.MUTABLE:
        raise Invalid(
            "excluded_param_patterns",
            list(record.excluded_param_patterns),
            "none for a mutable module",
        )
    if record.excluded_param_patterns and not record.fixed_param_patterns:
        raise Invalid(
            "excluded_param_patterns",
            list(record.excluded_param_patterns),
            "none without fixed_param_patterns, from which they are excepted",
        )
    names = _parameters(record, symbol)
    for field in ("fixed_param_patterns", "excluded_param_patterns"):
        for pattern in getattr(record, field):
            if not pattern or not _matching(names, [pattern]):
                there = ", ".join(names)
                near = did_you_mean(pattern, names)
                raise Invalid(field, pattern, f"a part of the name of a parameter: {there}{near}")
    _check_compression(record)


def fixed_names(record: ModuleRecord, symbol: Symbol) -> list[str]:
    """Return the fixed (untrained) parameters in the symbol's order."""
    names = _parameters(record, symbol)
    by_pattern = _matching(names, record.fixed_param_patterns)
    excluded = _matching(names, record.excluded_param_patterns)
    return [
        name
        for name in names
        if name in record.fixed_param_names or (name in by_pattern and name not in excluded)
    ]


def make_engine(
    record: ModuleRecord,
    symbol_of: SymbolOf,
    default_key: Any,
    contexts: Sequence[Context],
) -> Engine:
    """Return an unbound module.

    Args:
        record: passed by ``check_kind``.
        symbol_of: returns symbol, data names and label names of a bucket key.
        default_key: of the bucket that has every parameter; the only one without buckets.
        contexts: its devices.

    Raises:
        HostError: the names do not fit the symbol.
    """
    symbol, data_names, label_names = symbol_of(default_key)
    fixed = list(record.fixed_param_patterns)
    with client_fault("symbols"):
        if record.kind is ModuleKind.MUTABLE:
            return MutableModule(
                symbol, data_names, label_names, context=contexts, fixed_param_prefix=fixed
            )
        if record.kind is ModuleKind.DETECTION:
            return DetectionModule(
                symbol,
                data_names,
                label_names,
                context=contexts,
                fixed_param=fixed,
                excluded_param=list(record.excluded_param_patterns),
            )
        options: dict[str, Any] = {
            "context": contexts,
            "fixed_param_names": fixed_names(record, symbol),
            "state_names": list(record.state_names),
            "compression_params": record.compression_params,
        }
        if record.kind is ModuleKind.BUCKETING:
            return BucketingModule(symbol_of, default_key, **options)
        return Module(symbol, data_names, label_names, **options)


def _check_compression(record: ModuleRecord) -> None:
    if record.compression_params is None:
        return
    if len(record.contexts) < 2:
        expected = "none for one device, which exchanges no gradients; or more contexts"
        raise Invalid("compression_params", dict(record.compression_params), expected)
    with client_fault("compression_params"):
        kvstore.create("device").set_gradient_compression(dict(record.compression_params))


def _parameters(record: ModuleRecord, symbol: Symbol) -> list[str]:
    inputs = {*record.data_names, *record.label_names, *record.state_names}
    return [name for name in symbol.list_arguments() if name not in inputs]


def _matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(pattern in name for pattern in patterns)]
