"""The interface of a module's predictions, which clients can query before they send a request."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from app.executor.modules.hosted_module import HostedModule
from app.executor.predict.predictor import Predictor
from core.errors import ShapeError
from core.io import DataDesc
from core.types import Shape, to_dtype

__all__ = ["VARIABLE", "interface_of"]

VARIABLE = -1
"""The length of an axis that varies between requests."""


def interface_of(module: HostedModule) -> dict[str, Any]:
    """Return ``inputs`` and ``outputs``: name, dtype, shape and batch axis (or None) of each.

    ``has_rows`` tells whether the first axis of every one of them is the batch axis.
    """
    predictors = [module.inference.predictor(key) for key in module.buckets()]
    first = predictors[0]
    inputs = []
    for position, desc in enumerate(first.inputs):
        axis = DataDesc.get_batch_axis(desc.layout)
        shapes = [one.inputs[position].shape for one in predictors]
        shape = [VARIABLE if n == axis else dim for n, dim in enumerate(_common(shapes))]
        if module.takes_any_shape:
            shape = [VARIABLE] * len(shape)
        inputs.append(_row(desc.name, to_dtype(desc.dtype).name, shape) | {"batch_axis": axis})
    outputs = []
    # By position, because generated names may differ between buckets.
    found = [list(specs.values()) for one in predictors for specs in _output_specs(one)]
    for position, name in enumerate(first.output_names):
        shapes = [rows[position][0] for rows in found if position < len(rows)]
        shape = _common(shapes)
        if module.takes_any_shape:
            shape = [VARIABLE] * len(shape)
        row = _row(name, first.output_specs(first.bound_size)[name][1].name, shape)
        outputs.append(row | {"batch_axis": first.odd_axes.get(name, 0)})
    has_rows = all(one.has_rows for one in predictors) and all(
        one["batch_axis"] == 0 for one in inputs
    )
    has_rows = has_rows and all(one["shape"][:1] == [VARIABLE] for one in outputs)
    return {"inputs": inputs, "outputs": outputs, "has_rows": has_rows}


def _output_specs(predictor: Predictor) -> list[dict[str, Any]]:
    """Return the outputs' shapes for the bound batch size, and for 2 and 3 unless the symbol fixes
    the batch size."""
    found = [predictor.output_specs(predictor.bound_size)]
    with contextlib.suppress(ShapeError):
        found += [predictor.output_specs(size) for size in (2, 3)]
    return found


def _common(shapes: Sequence[Shape]) -> list[int]:
    """Return a shape with the lengths that all shapes share, and ``VARIABLE`` elsewhere."""
    return [dims[0] if len(set(dims)) == 1 else VARIABLE for dims in zip(*shapes, strict=True)]


def _row(name: str, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}
