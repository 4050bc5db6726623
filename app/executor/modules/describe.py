"""Descriptions of a hosted module, as clients see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.domain.codec import to_plain
from app.domain.module import BucketShapes
from app.executor.modules.engine_optimizer import optimizer_of
from app.executor.modules.engines import fixed_names
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.module_memory import memory_of
from app.executor.modules.symbol_specs import infer_specs
from app.executor.predict.interface import interface_of
from core.symbol import Symbol
from core.types import to_dtype

__all__ = ["describe_module", "describe_optimizer", "summarize"]


def summarize(module: HostedModule) -> dict[str, Any]:
    """Return name, stage and the job that works on a module."""
    return {
        "name": module.name,
        "kind": module.record.kind.value,
        "stage": module.record.stage.value,
        "generation": module.record.generation,
        "job_id": module.job_id,
    }


def describe_module(module: HostedModule) -> dict[str, Any]:
    """Return the full description of a module.

    Inputs, outputs and arguments have shapes once it is bound. ``predict`` says for each bucket
    whether its outputs have a row per example, so that requests can share a batch, and which batch
    sizes it runs with; ``interface`` says what clients send and get.
    """
    symbol = module.default_symbol
    facts = summarize(module) | {
        "data_names": module.data_names,
        "label_names": module.label_names,
        "output_names": symbol.list_outputs(),
        "contexts": [str(context) for context in module.contexts],
        "bind": None if module.record.bind is None else to_plain(module.record.bind),
        "has_unsaved": module.has_unsaved,
        "optimizer": describe_optimizer(module),
        "arguments": _names_only(module, symbol),
        "buckets": {},
        "predict": {},
        "outputs": [],
        "interface": None,
        "memory": None,
    }
    if module.record.bind is None:
        return facts
    default = module.record.default_bucket_key
    facts["buckets"] = {key: to_plain(shapes) for key, shapes in module.buckets().items()}
    return facts | _bound_facts(module, module.symbols[default], module.buckets()[default])


def describe_optimizer(module: HostedModule) -> dict[str, Any] | None:
    """Return the optimizer's specification and update counts; None without an optimizer."""
    optimizer = optimizer_of(module.engine)
    spec = module.record.optimizer
    if optimizer is None or spec is None:
        return None
    facts: dict[str, Any] = to_plain(spec)
    return facts | {
        "learning_rate": optimizer.learning_rate,
        "num_update": optimizer.num_update,
        "rescale_grad": optimizer.rescale_grad,
    }


def _bound_facts(module: HostedModule, symbol: Symbol, shapes: BucketShapes) -> dict[str, Any]:
    descs = [*shapes.data_shapes, *shapes.label_shapes]
    arguments = set(symbol.list_arguments())
    known = {one.name: one.shape for one in descs if one.name in arguments}
    dtypes = {one.name: to_dtype(one.dtype) for one in descs if one.name in arguments}
    specs = infer_specs(symbol, known, dtypes)
    predictors = {key: module.inference.predictor(key) for key in module.buckets()}
    axes = predictors[module.record.default_bucket_key].odd_axes
    outputs = [
        {
            "name": name,
            "shape": list(shape),
            "dtype": dtype.name,
            "batch_axis": axes.get(name, 0),
        }
        for name, (shape, dtype) in zip(symbol.list_outputs(), specs.outputs, strict=True)
    ]
    described = [
        one
        | {"shape": list(specs.variables[one["name"]][0])}
        | {"dtype": specs.variables[one["name"]][1].name}
        for one in _names_only(module, symbol)
    ]
    predict = {
        key: {"has_rows": one.has_rows, "sizes": one.sizes} for key, one in predictors.items()
    }
    return {
        "outputs": outputs,
        "arguments": described,
        "predict": predict,
        "interface": interface_of(module),
        "memory": memory_of(module),
    }


def _names_only(module: HostedModule, symbol: Symbol) -> list[dict[str, Any]]:
    fixed = set(fixed_names(module.record, symbol))
    rows: list[dict[str, Any]] = []
    for name in symbol.list_arguments():
        rows.append({"name": name, "role": _role(module, name), "fixed": name in fixed})
    for name in symbol.list_auxiliary_states():
        rows.append({"name": name, "role": "auxiliary", "fixed": False})
    return rows


def _role(module: HostedModule, name: str) -> str:
    groups: Sequence[tuple[str, Sequence[str]]] = (
        ("data", module.data_names),
        ("label", module.label_names),
        ("state", module.record.state_names),
    )
    return next((role for role, names in groups if name in names), "parameter")
