"""Checks that a dataset has the arrays that a job feeds to a module's inputs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

from app.domain.dataset import MAX_CLASSES, TEXT, DatasetKind, DatasetRecord, lengths_name
from app.domain.job_params import ArraySource, DatasetSource, FitParams, JobParams
from app.domain.module import ModuleKind, ModuleRecord
from app.errors.quoting import did_you_mean
from app.errors.tree import Invalid

__all__ = [
    "check_arrays",
    "check_input_names",
    "check_known",
    "check_named",
    "source_shape",
    "sources_of",
]


def sources_of(
    source: DatasetSource, names: Sequence[str], record: DatasetRecord
) -> dict[str, ArraySource]:
    """Return the array of each input: the one that the job names, else the one of its own name.

    If the dataset also has an array with its lengths, the array holds ragged examples. Instead of
    all but some columns, the columns are listed.
    """
    lengths = {array.name: array.shape[0] if array.shape else 0 for array in record.arrays}

    def completed(one: ArraySource) -> ArraySource:
        if one.all_but is not None:
            listed = tuple(array for array in lengths if array not in one.all_but)
            return dataclasses.replace(one, columns=listed, all_but=None)
        if one.array is None:
            return one
        other = lengths_name(one.array)
        is_flat = other in lengths and lengths.get(one.array) != lengths[other]
        is_specified = any(given is not None for given in (one.lengths, one.shape, one.axes))
        return dataclasses.replace(one, lengths=other) if is_flat and not is_specified else one

    return {name: completed(source.inputs.get(name, ArraySource(array=name))) for name in names}


def source_shape(source: ArraySource, record: DatasetRecord) -> tuple[int, ...] | None:
    """Return the shape of the array that a source reads; None if the dataset does not have it."""
    shapes = {array.name: array.shape for array in record.arrays}
    if source.array is not None:
        return shapes.get(source.array)
    first = shapes.get(source.columns[0]) if source.columns else None
    return None if first is None else (*first[:1], len(source.columns))


def check_named(params: JobParams, record: ModuleRecord) -> None:
    """Raise Invalid if a job names inputs, buckets or epochs that its module does not have."""
    check_input_names(params, record)
    if isinstance(params, FitParams):
        if params.first_epoch >= params.epochs:
            raise Invalid("begin_epoch", params.begin_epoch, f"less than epochs, {params.epochs}")
        if params.validation is not None:
            check_input_names(params.validation, record, "validation.")
    if params.bucket_keys and record.kind is not ModuleKind.BUCKETING:
        expected = "none for a module without buckets"
        raise Invalid("bucket_keys", list(params.bucket_keys), expected)
    for key in params.bucket_keys:
        if str(key) not in record.symbols:
            raise Invalid("bucket_keys", key, f"buckets that have symbols: {[*record.symbols]}")


def check_input_names(source: DatasetSource, module: ModuleRecord, prefix: str = "") -> None:
    """Raise Invalid if a source names inputs that a module does not have."""
    names = (*module.data_names, *module.label_names)
    for name in source.inputs:
        if name not in names:
            expected = f"inputs of the module: {', '.join(names)}{did_you_mean(name, names)}"
            raise Invalid(f"{prefix}inputs.{name}", "an array", expected)


def check_arrays(sources: Mapping[str, ArraySource], record: DatasetRecord, prefix: str) -> None:
    """Raise Invalid for arrays that the dataset does not have, or that are no numbers.

    Args:
        sources: by input, from ``sources_of``.
        record: the dataset.
        prefix: path of the dataset's source in the job's parameters, with a trailing dot.
    """
    shapes = {}
    for name, source in sources.items():
        field = f"{prefix}inputs.{name}"
        if source.array is None:
            _check_columns(source.columns, record, f"{field}.columns")
        else:
            _check_present(source.array, record, f"{field}.array")
        if source.lengths is not None:
            _check_present(source.lengths, record, f"{field}.lengths")
        shape = source_shape(source, record)
        assert shape is not None
        shapes[name] = shape
        _check_shape(source, shape, f"{field}.shape")
        _check_axes(source, shape, f"{field}.axes")
    _check_counts(sources, shapes, record, prefix)


def check_known(name: str, record: DatasetRecord, field: str) -> None:
    """Raise Invalid for an array that a dataset does not have."""
    present = [array.name for array in record.arrays]
    if name not in present:
        near = did_you_mean(name, present)
        listed = ", ".join(present) or "it has none"
        expected = f"an array of dataset {record.name!r}: {listed}{near}"
        has_no_names = record.kind is DatasetKind.CSV and present == ["data"]
        hint = "the columns of a csv file have the names in its first line, and this one has none"
        raise Invalid(field, name, expected, hint * has_no_names)


def _check_present(name: str, record: DatasetRecord, field: str) -> None:
    """Raise Invalid for an array that a dataset does not have, or that is of texts."""
    check_known(name, record, field)
    if any(array.name == name and array.dtype == TEXT for array in record.arrays):
        got = f"{name}, a column of free texts"
        expected = f"numbers, or the names of at most {MAX_CLASSES:,} classes"
        raise Invalid(field, got, expected, "leave the column out")


def _check_columns(columns: Sequence[str], record: DatasetRecord, field: str) -> None:
    """Raise Invalid for columns that a dataset does not have, or that have no number for each
    example."""
    if not columns:
        raise Invalid(field, "no columns", f"at least one of dataset {record.name!r}")
    shapes = {array.name: array.shape for array in record.arrays}
    for name in columns:
        _check_present(name, record, field)
        if columns.count(name) > 1:
            raise Invalid(field, f"{name} twice", "each column once")
        if len(shapes[name]) != 1 or shapes[name] != shapes[columns[0]]:
            got = f"{name} of shape {tuple(shapes[name])}"
            raise Invalid(field, got, "columns of one number for each example")


def _check_counts(
    sources: Mapping[str, ArraySource],
    shapes: Mapping[str, Sequence[int]],
    record: DatasetRecord,
    prefix: str,
) -> None:
    """Refuse inputs with different numbers of examples, and show how to give ragged ones."""
    own = {array.name: array.shape for array in record.arrays}
    counts = {
        name: shape[0]
        for name, one in sources.items()
        if (shape := shapes[name] if one.lengths is None else own[one.lengths])
    }
    first = next(iter(counts), "")
    for name, count in counts.items():
        if count == counts[first]:
            continue
        longer = max(first, name, key=counts.__getitem__)
        array = sources[longer].names[0]
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
