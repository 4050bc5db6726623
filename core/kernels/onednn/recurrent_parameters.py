"""Conversion of recurrent layers' parameters to oneDNN's form, and of gradients back.

oneDNN orders gates differently, takes transposed weights in the forward pass, and has one bias
instead of the operator's two (except for the GRU's candidate).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...capabilities.layers import CellParameters
from ...types import Array, Shape, shape_size
from ..kernel import KernelResources
from .constants import Argument
from .memory import strided
from .primitive import launch
from .recurrent_layers import Layer
from .reorder import make_reorder

__all__ = ["Block", "Call", "Packed", "pack", "unpack"]

_FLOAT32 = np.dtype("float32")
_ALIGNMENT = 64

Call = Callable[[], Any]


class Block:
    """Hands out consecutive pieces of memory; without memory it only counts the bytes."""

    def __init__(self, memory: Array | None = None) -> None:
        self._memory = memory
        self.nbytes = 0

    def take(self, shape: Shape) -> Array:
        """Return the next piece; an empty array if there is no memory."""
        return self.take_bytes(shape_size(shape) * _FLOAT32.itemsize).view(_FLOAT32)

    def take_bytes(self, nbytes: int) -> Array:
        """Return this many bytes."""
        start = self.nbytes
        self.nbytes += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        if self._memory is None:
            return np.empty(0, np.uint8)
        return self._memory[start : start + nbytes]


class Packed(NamedTuple):
    """Parameters, or their gradients, in oneDNN's form."""

    i2h: Array
    h2h: Array
    bias: Array

    @classmethod
    def of(cls, layer: Layer, block: Block) -> Packed:
        """Allocate the memory."""
        return cls(
            block.take(layer.weights(layer.inputs)),
            block.take(layer.weights(layer.hidden)),
            block.take(layer.bias),
        )


def pack(
    layer: Layer,
    parameters: Sequence[CellParameters],
    packed: Packed,
    resources: KernelResources,
    *,
    has_rows: bool = False,
) -> list[Call]:
    """Return closures that convert parameters to oneDNN's form.

    Args:
        layer: the layer.
        parameters: the parameters of each direction.
        packed: memory for the result.
        resources: of the kernel.
        has_rows: do not transpose the weights, as for the backward pass.
    """
    calls: list[Call] = []
    for side, given in enumerate(parameters):
        for weight, whole in ((given.i2h_weight, packed.i2h), (given.h2h_weight, packed.h2h)):
            part = whole.reshape(layer.directions, -1)[side]
            if has_rows:
                calls.append(_copy_rows(layer, weight, part))
            else:
                calls += _transposed(layer, weight, part, resources, to_packed=True)
        calls.append(_add_biases(layer, given, packed.bias.reshape(layer.bias)[0, side]))
    return calls


def unpack(
    layer: Layer, packed: Packed, gradients: Sequence[CellParameters], resources: KernelResources
) -> list[Call]:
    """Return closures that convert the parameters' gradients to the operator's form."""
    calls: list[Call] = []
    for side, target in enumerate(gradients):
        for weight, whole in ((target.i2h_weight, packed.i2h), (target.h2h_weight, packed.h2h)):
            part = whole.reshape(layer.directions, -1)[side]
            calls += _transposed(layer, weight, part, resources, to_packed=False)
        calls.append(_split_bias(layer, packed.bias.reshape(layer.bias)[0, side], target))
    return calls


def _transposed(
    layer: Layer, weight: Array, packed: Array, resources: KernelResources, *, to_packed: bool
) -> list[Call]:
    """Return closures that copy between (gates · hidden, columns) and (columns, gates, hidden)."""
    hidden, columns = layer.hidden, weight.shape[1]
    rows, width = weight.reshape(-1), len(layer.cell.gates) * hidden
    calls: list[Call] = []
    for place, gate, count in _runs(layer.cell.gates):
        size = count * hidden
        rows_desc = strided((columns, size), (1, columns))
        packed_desc = strided((columns, size), (width, 1))
        start = place * hidden
        # Up to the last element and not to the end of its row, as a descriptor counts its memory.
        ours = rows[gate * hidden * columns : (gate * hidden + size) * columns]
        theirs = packed[start : start + (columns - 1) * width + size]
        source, target = (rows_desc, packed_desc) if to_packed else (packed_desc, rows_desc)
        read, written = (ours, theirs) if to_packed else (theirs, ours)
        primitive = make_reorder(source, target)
        calls.append(launch(primitive, {Argument.SRC: read, Argument.DST: written}, resources))
    return calls


def _copy_rows(layer: Layer, weight: Array, packed: Array) -> Call:
    hidden = layer.hidden
    pairs = [
        (
            packed.reshape(weight.shape)[place * hidden : (place + count) * hidden],
            weight[gate * hidden : (gate + count) * hidden],
        )
        for place, gate, count in _runs(layer.cell.gates)
    ]

    def copy() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return copy


def _add_biases(layer: Layer, parameters: CellParameters, packed: Array) -> Call:
    i2h = parameters.i2h_bias.reshape(-1, layer.hidden)
    h2h = parameters.h2h_bias.reshape(-1, layer.hidden)

    def add() -> None:
        for target, (of_input, of_hidden) in zip(packed, layer.cell.biases, strict=True):
            if of_hidden is None:
                np.copyto(target, i2h[of_input])
            elif of_input is None:
                np.copyto(target, h2h[of_hidden])
            else:
                np.add(i2h[of_input], h2h[of_hidden], out=target)

    return add


def _split_bias(layer: Layer, packed: Array, gradients: CellParameters) -> Call:
    i2h = gradients.i2h_bias.reshape(-1, layer.hidden)
    h2h = gradients.h2h_bias.reshape(-1, layer.hidden)

    def split() -> None:
        for source, (of_input, of_hidden) in zip(packed, layer.cell.biases, strict=True):
            if of_input is not None:
                np.copyto(i2h[of_input], source)
            if of_hidden is not None:
                np.copyto(h2h[of_hidden], source)

    return split


def _runs(gates: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (place, gate, count) for runs of gates that are adjacent in both orders."""
    runs: list[tuple[int, int, int]] = []
    for place, gate in enumerate(gates):
        if runs and runs[-1][1] + runs[-1][2] == gate:
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((place, gate, 1))
    return runs
