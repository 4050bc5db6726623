"""Infers how a dataset's arrays are reshaped for a module's bound inputs, unless a job specifies
it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from app.domain.dataset import DatasetRecord
from app.domain.job_params import ArraySource, DatasetSource, FitParams, JobParams
from app.domain.module import InputDesc, ModuleKind, ModuleRecord
from app.domain.ragged_axes import batch_axis
from app.files.job_inputs import source_shape, sources_of

__all__ = ["in_bound_forms", "source_in_bound_forms"]

Shape = tuple[int, ...]


def in_bound_forms(
    params: JobParams, module: ModuleRecord, records: Mapping[str, DatasetRecord]
) -> JobParams:
    """Return a job's parameters with both sources in ``source_in_bound_forms``."""
    inputs = source_in_bound_forms(params, module, records[params.dataset])
    params = dataclasses.replace(params, inputs=inputs)
    if isinstance(params, FitParams) and params.validation is not None:
        validation = params.validation
        inputs = source_in_bound_forms(validation, module, records[validation.dataset])
        params = dataclasses.replace(
            params, validation=dataclasses.replace(validation, inputs=inputs)
        )
    return params


def source_in_bound_forms(
    source: DatasetSource, module: ModuleRecord, record: DatasetRecord
) -> dict[str, ArraySource]:
    """Return a source's inputs, completed by reshapes and transposes to the bound shapes.

    For example, digits of 28 x 28 are read as 1 x 28 x 28 and flat rows as images, and images are
    transposed between channels-last and channels-first. What the job specifies for an input is
    kept.
    """
    if module.bind is None or module.kind is ModuleKind.BUCKETING:
        return source.inputs
    bound = {one.name: one for one in (*module.bind.data_shapes, *module.bind.label_shapes)}
    given = sources_of(source, list(bound), record)
    fitted = {
        name: _fitted(one, shape, bound[name])
        for name, one in given.items()
        if (shape := source_shape(one, record)) is not None
    }
    return source.inputs | {name: one for name, one in fitted.items() if one != given[name]}


def _fitted(source: ArraySource, array: Shape, bound: InputDesc) -> ArraySource:
    is_specified = any(one is not None for one in (source.shape, source.axes, source.lengths))
    at, has = batch_axis(bound), array[1:]
    wanted = (*bound.shape[:at], *bound.shape[at + 1 :])
    if is_specified or at < 0 or not wanted or has == wanted:
        return source
    if math.prod(has) != math.prod(wanted):
        return source
    if len(has) != len(wanted):
        return dataclasses.replace(source, shape=wanted)
    if len(has) == 3 and (*has[2:], *has[:2]) == wanted:
        return dataclasses.replace(source, axes=(2, 0, 1))
    if len(has) == 3 and (*has[1:], *has[:1]) == wanted:
        return dataclasses.replace(source, axes=(1, 2, 0))
    return source
