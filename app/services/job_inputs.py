"""Whether a dataset has the arrays that a job takes a module's inputs from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from app.domain.dataset import DatasetRecord
from app.domain.job_params import ArraySource, DatasetSource
from app.errors import Invalid
from core.errors import did_you_mean

__all__ = ["check_arrays", "sources_of"]


def sources_of(source: DatasetSource, names: Sequence[str]) -> dict[str, ArraySource]:
    """Return where inputs of these names come from: as said, else the array of their own name."""
    return {name: source.inputs.get(name, ArraySource(array=name)) for name in names}


def check_arrays(sources: Mapping[str, ArraySource], record: DatasetRecord, prefix: str) -> None:
    """Raise Invalid for an array that the dataset does not have.

    Args:
        sources: by input.
        record: the dataset.
        prefix: path of the dataset's source in the job's parameters, with a dot at its end.
    """
    there = [array.name for array in record.arrays]
    shapes = {array.name: array.shape for array in record.arrays}
    for name, source in sources.items():
        for which, array in (("array", source.array), ("lengths", source.lengths)):
            if array is not None and array not in there:
                raise Invalid(
                    f"{prefix}inputs.{name}.{which}",
                    array,
                    f"an array of dataset {record.name!r}: {', '.join(there) or 'it has none'}"
                    f"{did_you_mean(array, there)}",
                )
        _check_shape(source, shapes[source.array], f"{prefix}inputs.{name}.shape")


def _check_shape(source: ArraySource, shape: Sequence[int], field: str) -> None:
    """Refuse another shape for the examples that has not as many elements."""
    count, example = shape[:1], tuple(shape[1:])
    if source.shape is None or count in ((), (0,)):
        return
    if math.prod(source.shape) != math.prod(example):
        expected = f"the elements of an example of shape {example}"
        raise Invalid(field, list(source.shape), expected)
