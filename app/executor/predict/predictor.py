"""Inference independent of training: separate executors that read the module's parameters.

A training step keeps its activations and outputs between calls, so inference never runs in the same
memory. Its executors, one per batch size, share an arena of their own.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from app.errors.tree import Invalid
from app.executor.modules.symbol_specs import Spec, SymbolSpecs, infer_specs, unknown_variables
from app.executor.predict.batch_axes import NO_AXIS, TWO_SIZES, batch_axis
from app.executor.predict.independence import find_independence
from app.executor.predict.inputs import check_castable, check_names, check_shape, common_rows
from app.executor.predict.nonfinite import NonfiniteCheck
from app.executor.predict.rows import rows_of
from app.link.protocols import Arrays
from core.backends import backend_of
from core.device import Context
from core.errors import ShapeError
from core.executor import Executor, StepTime
from core.io import DataDesc
from core.ndarray import NDArray
from core.symbol import Symbol
from core.types import Array, Shape, to_dtype

__all__ = ["MANY_NODES", "BatchRun", "Parameters", "Predictor", "SharedMemory"]

_LARGEST_BATCH = 64
"""Limit on the examples in one run, unless the module is bound with more."""

_SHORT_SECONDS = 0.02
"""Limit on the time of a run with more examples than bound, because others wait for it."""

_EXECUTORS_KEPT = 16
"""Batch sizes that stay bound; more than the powers of two up to the largest batch."""

MANY_NODES = 1_000
"""A graph with more nodes takes long to plan for a batch size."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Arrays of a module on one device.

    Attributes:
        arguments, auxiliary: arrays by name: the module's own, or a version's.
        context: the device.
    """

    arguments: Mapping[str, NDArray]
    auxiliary: Mapping[str, NDArray]
    context: Context


class SharedMemory:
    """An arena for all predictors of a module, which is that of the first executor."""

    def __init__(self) -> None:
        self.lender: Executor | None = None

    def nbytes(self) -> int:
        """Return the bytes of the arena, the outputs and the reordered weights."""
        if self.lender is None:
            return 0
        report = self.lender.memory_report()
        return report.arena + report.outputs + report.kept


class BatchRun(NamedTuple):
    """The result of running a batch.

    Attributes:
        outputs: for each request, by name; valid until the next run of any predictor that shares
            the memory.
        rows: total number of examples.
        input_seconds, infer_seconds: time to gather the inputs, and to compute.
        ended: when the outputs were complete, by the performance counter.
    """

    outputs: list[Arrays]
    rows: int
    input_seconds: float
    infer_seconds: float
    ended: float


@dataclass(frozen=True, slots=True)
class _Bound:
    executor: Executor
    inputs: dict[str, Array]
    size: int


class Predictor:
    """Runs one symbol (of one bucket) for any number of examples.

    Args:
        labels: descriptions of the labels as bound, for labels whose shapes cannot be inferred from
            the data (because the symbol flattens them).
        output_axes: the batch axis of each output; found out if None.

    Attributes:
        inputs: descriptions of the data inputs as bound, batch included.
        labels: descriptions of the labels whose shapes cannot be inferred from the data.
        output_names: names of the outputs.
        output_axes: the batch axis of each, or ``NO_AXIS``.
        bound_size: number of examples in the batch as bound.
        odd_axes: by name, the batch axes of outputs where it is not the first; None for
            ``NO_AXIS``.
        has_rows: True if every output has a row per example, so that batches may be padded and
            split; otherwise each request runs by itself, with exactly its examples.
        sizes: batch sizes it runs with, ascending; empty if each size is bound on demand.
        is_large: its graph has many nodes.
    """

    def __init__(
        self,
        symbol: Symbol,
        parameters: Parameters,
        inputs: Sequence[DataDesc],
        memory: SharedMemory,
        labels: Sequence[DataDesc] = (),
        output_axes: Sequence[int] | None = None,
    ) -> None:
        self.inputs = list(inputs)
        self.output_names = symbol.list_outputs()
        self.is_large = len(symbol.get_internals().list_outputs()) > MANY_NODES
        self._symbol = symbol
        self._parameters = parameters
        self._nonfinite = NonfiniteCheck(parameters.arguments, parameters.auxiliary)
        self._memory = memory
        self._names = [desc.name for desc in inputs]
        self._axes = {desc.name: DataDesc.get_batch_axis(desc.layout) for desc in inputs}
        self._dtypes = {desc.name: to_dtype(desc.dtype) for desc in inputs}
        self.bound_size = self._size_of(inputs)
        self.labels: list[DataDesc] = []
        unknown = unknown_variables(symbol, self._input_shapes(self.bound_size), self._dtypes)
        self.labels = [desc for desc in labels if desc.name in unknown]
        self._dtypes |= {desc.name: to_dtype(desc.dtype) for desc in self.labels}
        self.output_axes = list(output_axes or self._find_axes())
        self.odd_axes = {
            name: None if axis == NO_AXIS else axis
            for name, axis in zip(self.output_names, self.output_axes, strict=True)
            if axis
        }
        self._executors: OrderedDict[int, _Bound] = OrderedDict()
        self._output_specs: dict[int, dict[str, Spec]] = {}
        self._seconds: dict[int, float] = {}
        self._quick_rows: int | None = None
        self._rows_are_independent: bool | None = None
        self.has_rows = NO_AXIS not in self.output_axes
        self.sizes = self._choose_sizes() if self.has_rows else []

    @property
    def most_rows(self) -> int:
        """The largest number of examples in one run."""
        return self.sizes[-1] if self.sizes else max(_LARGEST_BATCH, self.bound_size)

    @property
    def quick_rows(self) -> int:
        """The largest run, in examples, that others can be made to wait for.

        It is at least the bound batch size. Larger sizes are allowed once runs of smaller ones show
        that they are quick enough, so it grows with use.
        """
        if self._quick_rows is None:
            self._quick_rows = self._find_quick_rows()
        return self._quick_rows

    def _find_quick_rows(self) -> int:
        most = self.bound_size if self.sizes else self.most_rows
        for size in self.sizes[self.sizes.index(most) + 1 :] if self.sizes else ():
            by_fewer = self._seconds.get(most, math.inf) * size / most
            if self._seconds.get(size, by_fewer) > _SHORT_SECONDS:
                break
            most = size
        return most

    def check(self, tensors: Arrays) -> int:
        """Return the number of examples; raise Invalid for tensors that do not fit."""
        check_names(tensors, self._names, may_miss=False)
        for desc in self.inputs:
            tensor = tensors[desc.name]
            check_shape(desc.name, tensor.shape, desc.shape, self._axes[desc.name])
            check_castable(desc.name, tensor.dtype, self._dtypes[desc.name])
        rows = common_rows(tensors, self._axes.items())
        if not self.has_rows and rows > self.most_rows:
            raise Invalid(
                self._names[0],
                f"{rows} examples",
                f"at most {self.most_rows}, because an output of the module has no row per example "
                "and so all are computed at once",
                "bind the module with a larger batch",
            )
        return rows

    def run(self, tensors: Arrays, rows: int) -> Arrays:
        """Return the outputs by name of up to ``most_rows`` examples, whose inputs have been
        checked.

        The outputs may share this object's memory, and are then valid until the next run of any
        predictor that shares it.
        """
        return self.run_batch([(tensors, rows)]).outputs[0]

    def run_batch(self, batch: Sequence[tuple[Arrays, int]]) -> BatchRun:
        """Compute several requests as one batch, concatenated along the batch axis.

        Args:
            batch: checked inputs and number of examples of each request; ``most_rows`` at most in
                total.
        """
        rows = sum(count for _, count in batch)
        size = self._size_for(rows)
        bound = self._bound(size)
        began = time.perf_counter()
        self._gather(bound, batch, rows)
        ready = time.perf_counter()
        outputs = self._forward(bound)
        self._nonfinite.check(outputs, (tensors for tensors, _ in batch))
        ended = time.perf_counter()
        self._note_seconds(size, ended - began)
        found, start = [], 0
        for _, count in batch:
            found.append(
                {
                    name: rows_of(output, start, count, axis) if self.has_rows else output
                    for (name, output), axis in zip(outputs.items(), self.output_axes, strict=True)
                }
            )
            start += count
        return BatchRun(found, rows, ready - began, ended - ready, ended)

    def timed_run(self, rows: int) -> tuple[float, list[StepTime]]:
        """Run a batch of ones as a prediction does, and again step by step; return both times."""
        bound, batch = self._bound(self._size_for(rows)), [(self._ones(rows), rows)]
        self._gather(bound, batch, rows)
        began = time.perf_counter()
        self._forward(bound)
        return time.perf_counter() - began, bound.executor.timed_forward()

    def _size_for(self, rows: int) -> int:
        return next(size for size in self.sizes if size >= rows) if self.has_rows else rows

    def plan(self, rows: int, joins: bool) -> None:
        """Make the plan for a number of examples, and find out whether they can be batched with
        others."""
        for size in self._needed_sizes(rows, joins):
            self._bound(size)

    def is_planned(self, rows: int, joins: bool) -> bool:
        """Return whether ``plan`` has nothing left to do."""
        return self._executors.keys() >= self._needed_sizes(rows, joins)

    def planned_rows(self, rows: int) -> int:
        """Return the largest run that is planned already, at least this many examples."""
        return max((size for size in self._executors if size >= rows), default=rows)

    def _needed_sizes(self, rows: int, joins: bool) -> set[int]:
        sizes = {self._size_for(min(rows, self.quick_rows))}
        if joins and self.can_join and self._rows_are_independent is None:
            sizes.add(self._size_for(_rows_of_trial(self.most_rows)))
        return sizes

    @property
    def can_join(self) -> bool:
        """True if several requests can share a batch and be split again."""
        return self.has_rows and self.most_rows > 1 and min(self._axes.values(), default=-1) >= 0

    @property
    def rows_are_independent(self) -> bool:
        """True if no row's outputs depend on the other rows; found out once, by a trial."""
        if self._rows_are_independent is None:
            rows = _rows_of_trial(self.most_rows)
            self._rows_are_independent = find_independence(
                lambda tensors: self.run(tensors, rows),
                self._input_shapes(rows),
                self._axes,
                dict(zip(self.output_names, self.output_axes, strict=True)),
            )
        return self._rows_are_independent

    def warm_up(self, most_rows: int | None) -> Iterator[None]:
        """Bind and run each batch size that batches of requests can have; yield after each.

        Args:
            most_rows: limit on the examples in one batch, if there is one.
        """
        for size in self.sizes or [self.bound_size]:
            for _ in range(2):  # the first run is slower than later ones
                self.run(self._ones(size), size)
            yield
            if size >= min(most_rows or self.quick_rows, self.quick_rows):
                break
        if self.can_join:
            _ = self.rows_are_independent

    def _ones(self, size: int) -> Arrays:
        shapes = self._input_shapes(size)
        return {name: np.ones(shapes[name], self._dtypes[name]) for name in self._names}

    def pieces(
        self, tensors: Arrays, rows: int, most: Callable[[], int]
    ) -> Iterator[tuple[int, int, Arrays]]:
        """Split a request into runs; yield start, count and inputs of each.

        Args:
            tensors: the inputs.
            rows: number of examples.
            most: called before each run for the largest size that it may have.
        """
        start = 0
        while start < rows:
            count = min(most(), rows - start)
            piece = {
                name: rows_of(tensor, start, count, axis)
                if (axis := self._axes[name]) >= 0
                else tensor
                for name, tensor in tensors.items()
            }
            yield start, count, piece
            start += count

    def joined_specs(self, rows: int) -> dict[str, Spec]:
        """Return shapes and dtypes of the outputs of a request that is split into runs."""
        specs = {}
        for (name, spec), axis in zip(
            self.output_specs(self.bound_size).items(), self.output_axes, strict=True
        ):
            shape, dtype = spec
            specs[name] = (*shape[:axis], rows, *shape[axis + 1 :]), dtype
        return specs

    def put(self, part: Arrays, outputs: Arrays, start: int, count: int) -> None:
        """Copy the outputs of one run into those of the request."""
        for name, axis in zip(self.output_names, self.output_axes, strict=True):
            rows_of(outputs[name], start, count, axis)[...] = part[name]

    def output_specs(self, size: int) -> dict[str, Spec]:
        """Return the outputs' shapes and dtypes for a number of examples; raise ShapeError."""
        found = self._output_specs.get(size)
        if found is None:
            if len(self._output_specs) >= _EXECUTORS_KEPT:
                self._output_specs.clear()
            found = dict(zip(self.output_names, self.specs(size).outputs, strict=True))
            self._output_specs[size] = found
        return found

    def specs(self, size: int) -> SymbolSpecs:
        """Return the shapes and dtypes of all variables and outputs; raise ShapeError."""
        return infer_specs(self._symbol, self._input_shapes(size), self._dtypes)

    def plans(self) -> int:
        """Return the number of batch sizes that it is bound for at the moment."""
        return len(self._executors)

    def input_bytes(self) -> int:
        """Return the bytes of the bound inputs."""
        bound = self._executors.values()
        return sum(int(array.nbytes) for one in bound for array in one.inputs.values())

    # -- running ------------------------------------------------------------------------------

    def _note_seconds(self, size: int, taken: float) -> None:
        """Record how long a run took; the shortest time of each size counts."""
        if taken < self._seconds.get(size, math.inf):
            self._seconds[size] = taken
            self._quick_rows = None

    def _forward(self, bound: _Bound) -> Arrays:
        backend = backend_of(self._parameters.context)
        outputs = bound.executor.forward(is_train=False)
        return {
            name: backend.to_host(output.dense())
            for name, output in zip(self.output_names, outputs, strict=True)
        }

    def _gather(self, bound: _Bound, batch: Sequence[tuple[Arrays, int]], rows: int) -> None:
        """Concatenate the rows of the requests.

        The rest is zeros, so that nothing depends on what an earlier batch left there.
        """
        if len(batch) == 1:
            for name, tensor in batch[0][0].items():
                self._write_rows(bound.inputs[name], tensor, rows, self._axes[name])
            return
        for name, target in bound.inputs.items():
            axis = self._axes[name]
            if axis < 0:
                self._write_rows(target, batch[0][0][name], rows, axis)
                continue
            pieces = [tensors[name] for tensors, _ in batch]
            if isinstance(target, np.ndarray):
                used = rows_of(target, 0, rows, axis)
                np.concatenate(pieces, axis, out=used, casting="unsafe")
                rows_of(target, rows, target.shape[axis] - rows, axis)[...] = 0
            else:
                self._write_rows(target, np.concatenate(pieces, axis), rows, axis)

    def _write_rows(self, target: Array, tensor: Array, rows: int, axis: int) -> None:
        backend = backend_of(self._parameters.context)
        if axis < 0 or target.shape[axis] == rows:
            backend.copy_into(target, tensor)
            return
        backend.copy_into(rows_of(target, 0, rows, axis), tensor)
        rest = [slice(None)] * target.ndim
        rest[axis] = slice(rows, None)
        target[tuple(rest)] = 0

    # -- binding ------------------------------------------------------------------------------

    def _bound(self, size: int) -> _Bound:
        bound = self._executors.get(size)
        if bound is None:
            bound = self._executors[size] = self._bind(size)
            if len(self._executors) > _EXECUTORS_KEPT:
                self._executors.popitem(last=False)
        self._executors.move_to_end(size)
        return bound

    def _bind(self, size: int) -> _Bound:
        symbol, parameters = self._symbol, self._parameters
        specs = self.specs(size)
        backend = backend_of(parameters.context)
        arguments = {}
        for name in symbol.list_arguments():
            if name in parameters.arguments:
                arguments[name] = parameters.arguments[name]
            else:
                arguments[name] = NDArray(backend.empty(*specs.variables[name]), parameters.context)
                arguments[name][:] = 0
        executor: Executor = symbol.bind(
            parameters.context,
            args=arguments,
            grad_req="null",
            aux_states={
                name: parameters.auxiliary[name] for name in symbol.list_auxiliary_states()
            },
            shared_exec=self._memory.lender,
        )
        if self._memory.lender is None:
            self._memory.lender = executor
        inputs = {name: arguments[name].dense_for_write() for name in self._names}
        return _Bound(executor, inputs, size)

    def _input_shapes(self, size: int) -> dict[str, Shape]:
        shapes = {}
        for desc in (*self.inputs, *self.labels):
            axis = DataDesc.get_batch_axis(desc.layout)
            shape = list(desc.shape)
            if axis >= 0:
                shape[axis] = size
            shapes[desc.name] = tuple(shape)
        return shapes

    def _size_of(self, inputs: Sequence[DataDesc]) -> int:
        sizes = [desc.shape[axis] for desc in inputs if (axis := self._axes[desc.name]) >= 0]
        return sizes[0] if sizes else 1

    def _find_axes(self) -> list[int]:
        """Return the batch axis of each output."""
        try:
            first, second = (self.specs(size).outputs for size in TWO_SIZES)
        except ShapeError:  # the symbol works for a single batch size only
            return self._declared_axes()
        pairs = zip(first, second, strict=True)
        return [batch_axis(one, other) for (one, _), (other, _) in pairs]

    def _declared_axes(self) -> list[int]:
        """Return the batch axes according to the symbol's layouts, if they have the length of the
        batch."""
        axes = []
        for index, (shape, _) in enumerate(self.specs(self.bound_size).outputs):
            axis = DataDesc.get_batch_axis(self._symbol[index].attr("__layout__"))
            axes.append(axis if shape[axis : axis + 1] == (self.bound_size,) else NO_AXIS)
        return axes

    def _choose_sizes(self) -> list[int]:
        """Return powers of two and the bound size; only the latter for a symbol with a fixed batch
        size."""
        try:
            self.output_specs(self.bound_size + 1)
        except ShapeError:
            return [self.bound_size]
        largest = max(_LARGEST_BATCH, self.bound_size)
        powers = [1 << power for power in range(largest.bit_length()) if 1 << power <= largest]
        return sorted({*powers, self.bound_size})


def _rows_of_trial(most: int) -> int:
    """Return the batch size of the trial for independence."""
    return min(3, most)
