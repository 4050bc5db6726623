"""Cells made of cells: one above the other, or in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import symbol
from ..errors import UsageError
from ..ndarray import NDArray
from ..symbol import Symbol
from .base import BaseRNNCell, Inputs, RNNParams, Weights, as_sequence

__all__ = ["BidirectionalCell", "SequentialRNNCell"]

NOT_STEPPED = "a BidirectionalCell cannot be stepped; use unroll"
PARAMS_TWICE = "specify params for {kind} or for its cells, not both"


class _Container(BaseRNNCell):
    """A cell with cells inside, whose states follow one another."""

    def __init__(self, params: RNNParams | None) -> None:
        self._cells = []
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """States of all cells, in order."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Return the states of all cells before the first step."""
        self._require_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with the weights of all cells divided by gate."""
        unpacked = dict(args)
        for cell in self._cells:
            unpacked = cell.unpack_weights(unpacked)
        return unpacked

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with the gates of all cells joined."""
        packed = dict(args)
        for cell in self._cells:
            packed = cell.pack_weights(packed)
        return packed

    def _share(self, cells: Sequence[BaseRNNCell]) -> None:
        """Let cells use this one's variables, and know theirs."""
        for cell in cells:
            if self._override_cell_params:
                if not cell._own_params:
                    raise UsageError(PARAMS_TWICE.format(kind=type(self).__name__))
                cell.params._params.update(self.params._params)
        # Only now, so that no cell is given the variables of another.
        for cell in cells:
            cell._params.is_shared = cell.params.is_shared = True
            self.params._params.update(cell.params._params)


class SequentialRNNCell(_Container):
    """Cells one above the other: the output of each is the input of the next.

    Args:
        params: variables of all its cells; if None, the cells make them.
    """

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__(params)

    def add(self, cell: BaseRNNCell) -> None:
        """Put a cell on top."""
        self._cells.append(cell)
        self._share([cell])

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step through all cells."""
        self._counter += 1
        next_states: list[Symbol] = []
        position = 0
        for cell in self._cells:
            if isinstance(cell, BidirectionalCell):
                raise UsageError(NOT_STEPPED)
            count = len(cell.state_info)
            inputs, new = cell(inputs, states[position : position + count])
            position += count
            next_states.extend(new)
        return inputs, next_states

    def unroll(
        self,
        length: int,
        inputs: Inputs,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll cell by cell, from the lowest."""
        self.reset()
        begin_state = self.begin_state() if begin_state is None else begin_state
        next_states: list[Any] = []
        position = 0
        for number, cell in enumerate(self._cells, 1):
            count = len(cell.state_info)
            inputs, states = cell.unroll(
                length,
                inputs=inputs,
                begin_state=begin_state[position : position + count],
                layout=layout,
                merge_outputs=merge_outputs if number == len(self._cells) else None,
            )
            position += count
            next_states.extend(states)
        return inputs, next_states


class BidirectionalCell(_Container):
    """One cell from the first step to the last, another from the last to the first.

    Outputs are both, side by side. It can only be unrolled.

    Args:
        l_cell: forwards.
        r_cell: backwards.
        params: variables of both; if None, the cells make them.
        output_prefix: of the outputs' names.
    """

    def __init__(
        self,
        l_cell: BaseRNNCell,
        r_cell: BaseRNNCell,
        params: RNNParams | None = None,
        output_prefix: str = "bi_",
    ) -> None:
        super().__init__(params)
        self._output_prefix = output_prefix
        self._cells = [l_cell, r_cell]
        self._share(self._cells)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Raise NotImplementedError: the last step must be known before the first."""
        raise NotImplementedError(NOT_STEPPED)

    def unroll(
        self,
        length: int,
        inputs: Inputs,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll both; the states are a list of each cell's states."""
        self.reset()
        steps, axis = as_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        forwards, backwards = self._cells
        count = len(forwards.state_info)
        l_outputs, l_states = forwards.unroll(length, steps, states[:count], layout, merge_outputs)
        r_outputs, r_states = backwards.unroll(
            length, list(reversed(steps)), states[count:], layout, merge_outputs
        )
        if merge_outputs is None:
            merge_outputs = isinstance(l_outputs, Symbol) and isinstance(r_outputs, Symbol)
            if not merge_outputs:
                l_outputs = _split(l_outputs, axis, length)
                r_outputs = _split(r_outputs, axis, length)
        if merge_outputs:
            return (
                # Features lie along the last of three axes, in both layouts.
                symbol.Concat(
                    l_outputs,
                    symbol.reverse(r_outputs, axis=axis),
                    dim=2,
                    name=f"{self._output_prefix}out",
                ),
                [l_states, r_states],
            )
        pairs = zip(l_outputs, reversed(r_outputs), strict=True)
        outputs = [
            symbol.Concat(left, right, dim=1, name=f"{self._output_prefix}t{step}")
            for step, (left, right) in enumerate(pairs)
        ]
        return outputs, [l_states, r_states]


def _split(outputs: Any, axis: int, length: int) -> list[Symbol]:
    if isinstance(outputs, Symbol):
        return list(symbol.SliceChannel(outputs, axis=axis, num_outputs=length, squeeze_axis=1))
    return list(outputs)
