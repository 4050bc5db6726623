"""What the first example of a dataset becomes as the inputs of a module, before any job runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.dataset import DatasetRecord
from app.domain.job_params import ArraySource, DatasetSource
from app.domain.module import ModuleRecord
from app.files.dataset_formats import plain_row
from app.files.input_arrays import formed, source_rows
from app.files.job_inputs import check_arrays, check_input_names, sources_of
from app.services.jobs.bound_forms import source_in_bound_forms
from app.services.jobs.table_columns import resolve_source
from app.services.modules.datasets import DatasetService
from app.services.predictions.predict_calls import bound_dtypes

__all__ = ["InputPreview", "preview_inputs"]

_MAX_LENGTH = 1000
"""Limit on the length to which examples of differing lengths are shown."""

Heads = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPreview:
    """The first example of one input.

    Attributes:
        names: the array, or the columns, that it is read from.
        shape: of the example.
        dtype: of the input.
        example: its numbers as nested lists; None if they are too many.
        classes: the texts that its numbers stand for, in order; empty for numbers.
        text: the one that the example's number stands for; None for numbers.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    example: Any
    classes: tuple[str, ...] = ()
    text: str | None = None


def preview_inputs(
    datasets: DatasetService, module: ModuleRecord, source: DatasetSource
) -> dict[str, InputPreview]:
    """Return what a fit would make of the first example, by input.

    Raises:
        NotFound: there is no such dataset.
        Invalid: what the fit would be refused for: see ``submissions``.
    """
    record = datasets.get(source.dataset)
    check_input_names(source, module)
    source = resolve_source(source, module, record, module.label_names, is_fit=True)
    present = {array.name for array in record.arrays}
    labels = [one for one in module.label_names if one in present]
    names = list(dict.fromkeys([*module.data_names, *source.inputs, *labels]))
    check_arrays(sources_of(source, names, record), record, "")
    inputs = source_in_bound_forms(source, module, record)
    source = dataclasses.replace(source, inputs=inputs)
    sources = sources_of(source, names, record)
    if not sources:
        return {}
    heads, lengths = _first_examples(datasets, record, list(sources.values()))
    dtypes = bound_dtypes(module)
    return {
        name: _preview(name, one, heads, lengths, record, source, dtypes.get(name, "float32"))
        for name, one in sources.items()
    }


def _first_examples(
    datasets: DatasetService, record: DatasetRecord, sources: Sequence[ArraySource]
) -> tuple[Heads, Mapping[str, int]]:
    """Return the first rows of each array, and for those of joined examples the first length."""
    heads = datasets.first_rows(record, 1)
    lengths = {
        one.array: min(int(heads[one.lengths][0]), _MAX_LENGTH)
        for one in sources
        if one.array is not None and one.lengths in heads
    }
    longest = max(lengths.values(), default=1)
    if longest > 1:
        heads |= {name: datasets.first_rows(record, longest)[name] for name in lengths}
    for array in record.arrays:
        if array.classes:
            places = [array.classes.index(text) for text in heads[array.name]]
            heads[array.name] = np.array(places, np.int64)
    return heads, lengths


def _preview(
    name: str,
    source: ArraySource,
    heads: Heads,
    lengths: Mapping[str, int],
    record: DatasetRecord,
    whole: DatasetSource,
    dtype: str,
) -> InputPreview:
    rows = source_rows(source, heads, record, whole.classes)[:]
    rows = formed(rows, source, f"inputs.{name}")
    length = lengths.get(source.array or "")
    example = rows[0] if length is None else rows[:length]
    with np.errstate(over="ignore", invalid="ignore"):  # as in the batches of a fit
        example = np.asarray(example).astype(dtype)
        if source.scale != 1.0:
            np.multiply(example, source.scale, out=example, casting="unsafe")
    classes = tuple(whole.classes.get(source.array or "", ()))
    return InputPreview(
        names=source.names,
        shape=example.shape,
        dtype=dtype,
        example=plain_row(example),
        classes=classes,
        text=classes[int(rows[0])] if classes else None,
    )
