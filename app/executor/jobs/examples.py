"""The examples of a job: arrays of a dataset as inputs of a module, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from app.domain.job_params import ArraySource, DatasetSource
from app.domain.module import InputDesc
from app.errors.quoting import did_you_mean
from app.errors.tree import Invalid
from app.executor.jobs.epoch_plan import PlannedBatch
from app.files.array_files import Rows
from app.files.dataset_formats import check_loaded, load_arrays
from app.files.input_arrays import check_lengths, example_shape, formed, source_rows
from app.files.job_inputs import check_arrays, sources_of
from app.link.job_messages import DatasetFile
from core.io import DataDesc
from core.types import to_dtype

__all__ = ["Examples", "InputForm"]


@dataclass(frozen=True, slots=True)
class InputForm:
    """The form in which a module takes an input: its dtype, and the position of the batch axis."""

    name: str
    dtype: str = "float32"
    layout: str | None = None


class _Input:
    """One input: the array that it is read from, and the buffers that its batches are gathered
    in."""

    def __init__(
        self,
        form: InputForm,
        source: ArraySource,
        rows: Rows,
        lengths: Rows | None,
        field: str,
    ) -> None:
        self.form = form
        self.dtype = to_dtype(form.dtype)
        if rows.ndim == 0:
            raise Invalid(field, "an array without dimensions", "an array of examples")
        self.lengths = None if lengths is None else check_lengths(lengths, rows, field)
        self._source = source
        self._field = field
        self._rows = rows
        self._example = example_shape(rows, source, field)
        self._offsets = None if self.lengths is None else np.cumsum(self.lengths) - self.lengths
        self._buffers: dict[tuple[int, ...], npt.NDArray[Any]] = {}

    @property
    def count(self) -> int:
        return len(self._rows) if self.lengths is None else len(self.lengths)

    def nbytes(self) -> int:
        """Return the bytes of the array (none if it remains in its file) and of the buffers."""
        array = self._rows.nbytes if _is_in_memory(self._rows) else 0
        return array + sum(buffer.nbytes for buffer in self._buffers.values())

    def shape(self, batch_size: int, length: int | None) -> tuple[int, ...]:
        """Return the shape of a batch, in the input's layout."""
        example = self._example
        if self.lengths is not None:
            example = (self._longest() if length is None else length, *example)
        axis = max(DataDesc.get_batch_axis(self.form.layout), 0)
        return (*example[:axis], batch_size, *example[axis:])

    def fill(self, rows: npt.NDArray[np.intp], length: int | None) -> npt.NDArray[Any]:
        """Return a batch; the next one of the same shape overwrites it."""
        shape = self.shape(len(rows), length)
        if shape not in self._buffers:
            self._buffers[shape] = np.empty(shape, dtype=self.dtype)
        batch = self._buffers[shape]
        by_row = np.moveaxis(batch, max(DataDesc.get_batch_axis(self.form.layout), 0), 0)
        if self.lengths is None:
            np.copyto(by_row, self._formed(self._rows[rows]), casting="unsafe")
        else:
            self._fill_ragged(by_row, rows)
        if self._source.scale != 1.0:
            np.multiply(batch, self._source.scale, out=batch, casting="unsafe")
        return batch

    @property
    def size(self) -> int:
        return len(self._rows) * math.prod(self._example)

    def chunks(self, elements: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        rows = max(1, elements // max(1, math.prod(self._example)))
        for start in range(0, len(self._rows), rows):
            values = np.asarray(self._formed(self._rows[start : start + rows]))
            if self._source.scale != 1.0:
                values = values * self._source.scale
            yield start, values

    def _fill_ragged(self, by_row: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> None:
        assert self.lengths is not None
        assert self._offsets is not None
        by_row[...] = self._source.padding
        for target, row in zip(by_row, rows, strict=True):
            start, length = self._offsets[row], self.lengths[row]
            target[:length] = self._formed(self._rows[start : start + length])

    def _formed(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return formed(rows, self._source, self._field)

    def _longest(self) -> int:
        assert self.lengths is not None
        return int(self.lengths.max(initial=1))


class Examples:
    """Examples of one dataset for some of a module's inputs.

    Attributes:
        count: number of examples.
        lengths: of each example; None if no input is ragged.
    """

    def __init__(
        self,
        source: DatasetSource,
        files: Mapping[str, DatasetFile],
        forms: Sequence[InputForm],
        field: str = "",
    ) -> None:
        """Load the arrays that the inputs are read from.

        Args:
            source: the array of each input.
            files: the datasets by name.
            forms: the inputs that the module takes.
            field: path of ``source`` in the job's parameters, for errors.

        Raises:
            Invalid: an array is missing, or the arrays do not fit together.
        """
        prefix = f"{field}." if field else ""
        wanted = [form.name for form in forms]
        for name in source.inputs:
            if name not in wanted:
                near = did_you_mean(name, wanted)
                expected = f"inputs of the module: {', '.join(wanted)}{near}"
                raise Invalid(f"{prefix}inputs.{name}", "an array", expected)
        record = files[source.dataset].record
        sources = sources_of(source, wanted, record)
        arrays = _load(sources, files[source.dataset], prefix)
        self._inputs = [
            _Input(
                form,
                sources[form.name],
                source_rows(sources[form.name], arrays, record, source.classes),
                arrays.get(sources[form.name].lengths or ""),
                f"{prefix}inputs.{form.name}",
            )
            for form in forms
        ]
        self.count = self._common_count(prefix)
        ragged = [one.lengths for one in self._inputs if one.lengths is not None]
        self.lengths = np.max(ragged, axis=0) if ragged else None

    def nbytes(self) -> int:
        """Return the bytes of the arrays in memory, not counting those that remain in files."""
        return sum(one.nbytes() for one in self._inputs)

    def shapes(self, batch_size: int, length: int | None) -> list[InputDesc]:
        """Return descriptions of a batch's inputs, with ragged ones padded to a length."""
        return [
            InputDesc(
                name=one.form.name,
                shape=one.shape(batch_size, length),
                dtype=one.form.dtype,
                layout=one.form.layout,
            )
            for one in self._inputs
        ]

    def fill(self, batch: PlannedBatch) -> dict[str, npt.NDArray[Any]]:
        """Return a batch by input name; valid until the next one of the same shape."""
        return {one.form.name: one.fill(batch.rows, batch.bucket) for one in self._inputs}

    def size_of(self, name: str) -> int:
        """Return the number of elements of an input's array."""
        return self._input(name).size

    def chunks(self, name: str, elements: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Yield an input's rows, about so many elements at once, with the number of the first row;
        a ragged input has a row for each step of its examples."""
        return self._input(name).chunks(elements)

    def by_row(self, name: str, batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a view of an input's batch with its examples along the first axis."""
        form = self._input(name).form
        return np.moveaxis(batch, max(DataDesc.get_batch_axis(form.layout), 0), 0)

    def lengths_of(
        self, names: Iterable[str], rows: npt.NDArray[np.intp]
    ) -> dict[str, npt.NDArray[np.intp]]:
        """Return the lengths of examples for each ragged input."""
        wanted = set(names)
        return {
            one.form.name: one.lengths[rows]
            for one in self._inputs
            if one.lengths is not None and one.form.name in wanted
        }

    def _input(self, name: str) -> _Input:
        return next(one for one in self._inputs if one.form.name == name)

    def _common_count(self, prefix: str) -> int:
        counts = {one.form.name: one.count for one in self._inputs}
        first, count = next(iter(counts.items()))
        for name, other in counts.items():
            if other != count:
                raise Invalid(
                    f"{prefix}inputs.{name}",
                    f"an array of {other} examples",
                    f"{count} examples, as {first!r} has",
                )
        if count == 0:
            raise Invalid(f"{prefix}dataset", "no examples", "at least one")
        return count


def _is_in_memory(rows: Rows) -> TypeGuard[npt.NDArray[Any]]:
    """Return whether an array does not remain in its file, mapped or to be read."""
    return isinstance(rows, np.ndarray) and not isinstance(rows, np.memmap)


def _load(sources: Mapping[str, ArraySource], file: DatasetFile, prefix: str) -> dict[str, Rows]:
    check_arrays(sources, file.record, prefix)
    both = [array for one in sources.values() for array in (*one.names, one.lengths)]
    wanted = dict.fromkeys(array for array in both if array is not None)
    record = file.record
    arrays = load_arrays(Path(file.path), record.kind, list(wanted), is_ours=record.path is None)
    check_loaded(arrays, record)
    return arrays
