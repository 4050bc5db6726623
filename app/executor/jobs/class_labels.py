"""A dataset's class names as labels of the output that predicts the classes."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.dataset import DatasetRecord
from app.domain.job_params import DatasetSource
from app.executor.modules.hosted_module import HostedModule
from app.executor.modules.symbol_specs import infer_specs
from app.files.job_inputs import sources_of
from core.types import to_dtype

__all__ = ["class_labels"]


def class_labels(
    module: HostedModule, source: DatasetSource, record: DatasetRecord
) -> dict[str, tuple[str, ...]]:
    """Return the class names of a dataset under the outputs of a bound module that predict them.

    Args:
        source: of a fit: its labels may be columns of texts.
        record: its dataset, which may be of images with classes.
    """
    columns = [
        source.classes[array]
        for one in sources_of(source, module.label_names, record).values()
        for array in one.names
        if array in source.classes
    ]
    labels: dict[str, tuple[str, ...]] = {}
    for classes in (record.classes, *columns):
        labels |= _labels_of(module, classes)
    return labels


def _labels_of(module: HostedModule, classes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return classes under the one output that has as many columns as there are classes; nothing if
    no output or several do."""
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
