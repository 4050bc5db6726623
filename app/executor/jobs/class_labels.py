"""A dataset's class names as labels of the output that predicts the classes."""

from __future__ import annotations

from collections.abc import Sequence

from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.symbol_specs import infer_specs
from core.types import to_dtype

__all__ = ["class_labels"]


def class_labels(module: HostedModule, classes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the class names under the one output of a bound module that has as many columns as
    there are classes; empty if no output or several do."""
    bound, symbol = module.record.bind, module.default_symbol
    if bound is None or not classes:
        return {}
    arguments = set(symbol.list_arguments())
    inputs = [one for one in (*bound.data_shapes, *bound.label_shapes) if one.name in arguments]
    shapes = {one.name: one.shape for one in inputs}
    specs = infer_specs(symbol, shapes, {one.name: to_dtype(one.dtype) for one in inputs})
    outputs = zip(symbol.list_outputs(), specs.outputs, strict=True)
    found = [name for name, (shape, _) in outputs if len(shape) > 1 and shape[-1] == len(classes)]
    return {found[0]: tuple(classes)} if len(found) == 1 else {}
