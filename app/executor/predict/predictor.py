"""Inference beside training: executors of their own that read the module's parameters.

A training step keeps its activations and outputs between its calls, so inference never runs in
the same memory. Its executors, one per number of examples, share one arena among themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.executor.modules.symbol_specs import infer_specs, unknown_variables
from app.executor.predict.inputs import check_castable, check_names, check_shape, common_rows
from app.link.protocols import Arrays
from core.backends import backend_of
from core.device import Context
from core.errors import ShapeError
from core.executor import Executor
from core.io import DataDesc
from core.ndarray import NDArray
from core.symbol import Symbol
from core.types import Array, Shape, to_dtype

__all__ = ["Parameters", "Predictor", "SharedMemory"]

_LARGEST_BATCH = 64
"""Examples of one run, unless the module is bound with more."""

_EXECUTORS_KEPT = 16


@dataclass(frozen=True, slots=True)
class Parameters:
    """Arrays of a module on one device.

    Attributes:
        arguments, auxiliary: by name, those the module trains or holds.
        context: the device.
    """

    arguments: Mapping[str, NDArray]
    auxiliary: Mapping[str, NDArray]
    context: Context


class SharedMemory:
    """Lets all predictors of a module work in one arena; the first executor lends its own."""

    def __init__(self) -> None:
        self.lender: Executor | None = None

    def nbytes(self) -> int:
        """Return the bytes of the arena."""
        return self.lender.memory_report().arena if self.lender is not None else 0


@dataclass(frozen=True, slots=True)
class _Bound:
    executor: Executor
    inputs: dict[str, Array]


class Predictor:
    """Runs one symbol (of one bucket) for any number of examples.

    Args:
        labels: descriptions of the labels as bound. Where a label's shape does not follow from the
            data (one that the symbol flattens) it is this, for as many examples.

    Attributes:
        inputs: descriptions of the data inputs as bound, batch included.
        output_names: names of the outputs.
        bound_size: number of examples in the batch as bound.
        has_rows: True where every output has a row per example, so that a batch may be padded and
            cut apart; else it runs with exactly the examples given.
        sizes: batch sizes it runs with, ascending; empty where every size is bound as it comes.
    """

    def __init__(
        self,
        symbol: Symbol,
        parameters: Parameters,
        inputs: Sequence[DataDesc],
        memory: SharedMemory,
        labels: Sequence[DataDesc] = (),
    ) -> None:
        self.inputs = list(inputs)
        self.output_names = symbol.list_outputs()
        self._symbol = symbol
        self._parameters = parameters
        self._memory = memory
        self._names = [desc.name for desc in inputs]
        self._axes = {desc.name: DataDesc.get_batch_axis(desc.layout) for desc in inputs}
        self._dtypes = {desc.name: to_dtype(desc.dtype) for desc in inputs}
        self.bound_size = self._size_of(inputs)
        self._labels: list[DataDesc] = []
        unknown = unknown_variables(symbol, self._input_shapes(self.bound_size), self._dtypes)
        self._labels = [desc for desc in labels if desc.name in unknown]
        self._dtypes |= {desc.name: to_dtype(desc.dtype) for desc in self._labels}
        self._output_axes = [
            DataDesc.get_batch_axis(symbol[index].attr("__layout__"))
            for index in range(len(self.output_names))
        ]
        self._executors: OrderedDict[int, _Bound] = OrderedDict()
        self.has_rows = self._find_rows()
        self.sizes = self._choose_sizes() if self.has_rows else []

    def run(self, tensors: Arrays) -> Arrays:
        """Return the outputs by name.

        They may be this object's own memory, valid until the next run of any predictor that shares
        it.

        Raises:
            Invalid: a tensor is missing, unknown, or of another shape or dtype than bound.
        """
        rows = self.check(tensors)
        if not self.has_rows:
            return self._run_once(tensors, rows, rows)
        if rows <= self.sizes[-1]:
            return self._run_once(tensors, rows, self._fitting_size(rows))
        parts = [
            {name: output.copy() for name, output in self._run_once(piece, count, size).items()}
            for piece, count, size in self._pieces(tensors, rows)
        ]
        return {
            name: np.concatenate([part[name] for part in parts], axis=axis)
            for name, axis in zip(self.output_names, self._output_axes, strict=True)
        }

    def check(self, tensors: Arrays) -> int:
        """Return the number of examples; raise Invalid for tensors that do not fit."""
        check_names(tensors, self._names, may_miss=False)
        for desc in self.inputs:
            tensor = tensors[desc.name]
            check_shape(desc.name, tensor.shape, desc.shape, self._axes[desc.name])
            check_castable(desc.name, tensor.dtype, self._dtypes[desc.name])
        return common_rows(tensors, self._axes.items())

    def output_shapes(self, size: int) -> list[Shape]:
        """Return the shapes of the outputs for a number of examples; raise ShapeError."""
        specs = infer_specs(self._symbol, self._input_shapes(size), self._dtypes)
        return [shape for shape, _ in specs.outputs]

    # -- running ------------------------------------------------------------------------------

    def _run_once(self, tensors: Arrays, rows: int, size: int) -> Arrays:
        bound = self._bound(size)
        backend = backend_of(self._parameters.context)
        for name, tensor in tensors.items():
            self._write_rows(bound.inputs[name], tensor, rows, self._axes[name])
        outputs = bound.executor.forward(is_train=False)
        named = zip(self.output_names, outputs, self._output_axes, strict=True)
        return {
            name: _rows(backend.to_host(output.data), rows, axis)
            if self.has_rows
            else backend.to_host(output.data)
            for name, output, axis in named
        }

    def _write_rows(self, target: Array, tensor: Array, rows: int, axis: int) -> None:
        backend = backend_of(self._parameters.context)
        if axis < 0 or target.shape[axis] == rows:
            backend.copy_into(target, tensor)
            return
        backend.copy_into(_rows(target, rows, axis), tensor)
        rest = [slice(None)] * target.ndim
        rest[axis] = slice(rows, None)
        target[tuple(rest)] = 0

    def _pieces(self, tensors: Arrays, rows: int) -> Iterator[tuple[Arrays, int, int]]:
        largest = self.sizes[-1]
        for start in range(0, rows, largest):
            count = min(largest, rows - start)
            piece = {
                name: _rows(tensor, start + count, axis, start)
                if (axis := self._axes[name]) >= 0
                else tensor
                for name, tensor in tensors.items()
            }
            yield piece, count, self._fitting_size(count)

    def _fitting_size(self, rows: int) -> int:
        return next(size for size in self.sizes if size >= rows)

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
        specs = infer_specs(symbol, self._input_shapes(size), self._dtypes)
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
        return _Bound(executor, {name: arguments[name].data for name in self._names})

    def _input_shapes(self, size: int) -> dict[str, Shape]:
        shapes = {}
        for desc in (*self.inputs, *self._labels):
            axis = DataDesc.get_batch_axis(desc.layout)
            shape = list(desc.shape)
            if axis >= 0:
                shape[axis] = size
            shapes[desc.name] = tuple(shape)
        return shapes

    def _size_of(self, inputs: Sequence[DataDesc]) -> int:
        sizes = [desc.shape[axis] for desc in inputs if (axis := self._axes[desc.name]) >= 0]
        return sizes[0] if sizes else 1

    def _find_rows(self) -> bool:
        """Tell whether the batch axis of every output is as long as the batch, for any batch."""
        try:
            return all(self._are_rows(size) for size in (2, 3))
        except ShapeError:
            return self._are_rows(self.bound_size)

    def _are_rows(self, size: int) -> bool:
        shapes = self.output_shapes(size)
        return all(
            0 <= axis < len(shape) and shape[axis] == size
            for shape, axis in zip(shapes, self._output_axes, strict=True)
        )

    def _choose_sizes(self) -> list[int]:
        """Return powers of two and the bound size; that alone for a symbol with a fixed one."""
        try:
            self.output_shapes(self.bound_size + 1)
        except ShapeError:
            return [self.bound_size]
        largest = max(_LARGEST_BATCH, self.bound_size)
        powers = [1 << power for power in range(largest.bit_length()) if 1 << power <= largest]
        return sorted({*powers, self.bound_size})


def _rows(array: Array, stop: int, axis: int, start: int = 0) -> Array:
    if axis == 0:
        return array[start:stop]
    index = [slice(None)] * array.ndim
    index[axis] = slice(start, stop)
    return array[tuple(index)]
