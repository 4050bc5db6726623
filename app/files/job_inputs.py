"""Checks that a dataset has the arrays that a job feeds to a module's inputs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

from app.domain.dataset import DatasetRecord, lengths_name
from app.domain.job_params import ArraySource, DatasetSource, FitParams, JobParams
from app.domain.module import ModuleKind, ModuleRecord
from app.errors import Invalid
from app.quoting import did_you_mean

__all__ = ["check_arrays", "check_named", "sources_of"]


def sources_of(
    source: DatasetSource, names: Sequence[str], record: DatasetRecord
) -> dict[str, ArraySource]:
    """Return the array of each input: the one that the job names, else the one of its own name.

    If the dataset also has an array with its lengths, the array holds ragged examples.
    """
    lengths = {array.name: array.shape[0] if array.shape else 0 for array in record.arrays}

    def completed(one: ArraySource) -> ArraySource:
        other = lengths_name(one.array)
        is_flat = other in lengths and lengths.get(one.array) != lengths[other]
        is_specified = any(given is not None for given in (one.lengths, one.shape, one.axes))
        return dataclasses.replace(one, lengths=other) if is_flat and not is_specified else one

    return {name: completed(source.inputs.get(name, ArraySource(array=name))) for name in names}


def check_named(params: JobParams, record: ModuleRecord) -> None:
    """Raise Invalid if a job names inputs, buckets or epochs that its module does not have."""
    names = (*record.data_names, *record.label_names)
    sources = {"": params.inputs}
    if isinstance(params, FitParams):
        if params.first_epoch >= params.epochs:
            raise Invalid("begin_epoch", params.begin_epoch, f"less than epochs, {params.epochs}")
        if params.validation is not None:
            sources["validation."] = params.validation.inputs
    for prefix, inputs in sources.items():
        for name in inputs:
            if name not in names:
                expected = f"inputs of the module: {', '.join(names)}{did_you_mean(name, names)}"
                raise Invalid(f"{prefix}inputs.{name}", "an array", expected)
    if params.bucket_keys and record.kind is not ModuleKind.BUCKETING:
        expected = "none for a module without buckets"
        raise Invalid("bucket_keys", list(params.bucket_keys), expected)
    for key in params.bucket_keys:
        if str(key) not in record.symbols:
            raise Invalid("bucket_keys", key, f"buckets that have symbols: {[*record.symbols]}")


def check_arrays(sources: Mapping[str, ArraySource], record: DatasetRecord, prefix: str) -> None:
    """Raise Invalid for arrays that the dataset does not have.

    Args:
        sources: by input.
        record: the dataset.
        prefix: path of the dataset's source in the job's parameters, with a trailing dot.
    """
    present = [array.name for array in record.arrays]
    shapes = {array.name: array.shape for array in record.arrays}
    for name, source in sources.items():
        for which, array in (("array", source.array), ("lengths", source.lengths)):
            if array is not None and array not in present:
                raise Invalid(
                    f"{prefix}inputs.{name}.{which}",
                    array,
                    f"an array of dataset {record.name!r}: {', '.join(present) or 'it has none'}"
                    f"{did_you_mean(array, present)}",
                )
        _check_shape(source, shapes[source.array], f"{prefix}inputs.{name}.shape")
        _check_axes(source, shapes[source.array], f"{prefix}inputs.{name}.axes")
    _check_counts(sources, shapes, prefix)


def _check_counts(
    sources: Mapping[str, ArraySource], shapes: Mapping[str, Sequence[int]], prefix: str
) -> None:
    """Refuse inputs with different numbers of examples, and show how to give ragged ones."""
    counts = {
        name: shape[0]
        for name, one in sources.items()
        if (shape := shapes[one.lengths or one.array])
    }
    first = next(iter(counts), "")
    for name, count in counts.items():
        if count == counts[first]:
            continue
        longer = max(first, name, key=counts.__getitem__)
        array = sources[longer].array
        shown = {longer: {"array": array, "lengths": lengths_name(array)}}
        raise Invalid(
            f"{prefix}inputs.{name}",
            f"an array of {count} examples",
            f"{counts[first]} examples, as {first!r} has",
            "if examples differ in length, join them end to end in one array and put their lengths "
            f'in another: "inputs": {json.dumps(shown)}',
        )


def _check_shape(source: ArraySource, shape: Sequence[int], field: str) -> None:
    """Refuse to reshape examples to a different number of elements, or with transposed axes."""
    count, example = shape[:1], tuple(shape[1:])
    if source.shape is None or count in ((), (0,)):
        return
    if math.prod(source.shape) != math.prod(example):
        expected = f"the elements of an example of shape {example}"
        raise Invalid(field, list(source.shape), expected)
    if example != source.shape and len(example) == 3 and sorted(example) == sorted(source.shape):
        order = [example.index(size) for size in source.shape]
        axes = [2, 0, 1] if order[0] == 2 else [1, 2, 0]
        raise Invalid(
            field,
            list(source.shape),
            f"the sizes of an example, {example}, in that order: a reshape does not transpose",
            f'set "axes": {axes} to transpose, or save the array transposed',
        )


def _check_axes(source: ArraySource, shape: Sequence[int], field: str) -> None:
    """Refuse axes that do not permute an example's, or that come with a shape or lengths."""
    if source.axes is None:
        return
    if source.shape is not None or source.lengths is not None:
        raise Invalid(field, list(source.axes), "no axes together with shape or lengths")
    if sorted(source.axes) != list(range(len(shape) - 1)):
        expected = f"each axis of an example of shape {tuple(shape[1:])} once, counted from 0"
        raise Invalid(field, list(source.axes), expected)
