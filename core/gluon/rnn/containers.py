"""Cells of gluon made of cells: one above the other, or in both directions."""

from __future__ import annotations

from typing import Any

from ...errors import UsageError
from .base_cell import HybridRecurrentCell, RecurrentCell, first_states, states_of
from .sequences import format_sequence, is_merged, mask_padding, reverse_sequences

__all__ = ["BidirectionalCell", "HybridSequentialRNNCell", "SequentialRNNCell"]


class _Container(RecurrentCell):
    """A cell with cells inside, whose states follow one another."""

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return shape and layout of the states of all cells, in order."""
        return states_of(list(self._children.values()), batch_size)

    def begin_state(self, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Return the states of all cells before the first step."""
        self._require_unmodified()
        cells: Any = self._children.values()
        return [state for cell in cells for state in cell.begin_state(**kwargs)]


class _Stack(_Container):
    """Cells one above the other: the output of each is the input of the next."""

    def add(self, cell: RecurrentCell) -> None:
        """Put a cell on top."""
        self.register_child(cell)

    def forward(self, *args: Any) -> Any:
        """Take one step through all cells.

        Raises:
            UsageError: there is a ``BidirectionalCell`` among them.
        """
        self._counter += 1
        inputs, states = args
        following: list[Any] = []
        start = 0
        for cell in self:
            if isinstance(cell, BidirectionalCell):
                raise UsageError(NOT_STEPPED)
            count = len(cell.state_info())
            inputs, new = cell(inputs, states[start : start + count])
            start += count
            following.extend(new)
        return inputs, following

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll cell by cell, from the lowest; see ``RecurrentCell.unroll``."""
        self.reset()
        inputs, _, functions, batch_size = format_sequence(length, inputs, layout, None)
        states = first_states(self, functions, begin_state, inputs, batch_size)
        last: list[Any] = []
        start = 0
        for number, cell in enumerate(self, 1):
            count = len(cell.state_info())
            inputs, new = cell.unroll(
                length,
                inputs=inputs,
                begin_state=states[start : start + count],
                layout=layout,
                merge_outputs=merge_outputs if number == len(self) else None,
                valid_length=valid_length,
            )
            start += count
            last.extend(new)
        return inputs, last

    def __iter__(self) -> Any:
        return iter(self._children.values())

    def __getitem__(self, place: int) -> Any:
        return list(self._children.values())[place]

    def __len__(self) -> int:
        return len(self._children)

    def __repr__(self) -> str:
        lines = [
            f"({key}): " + repr(cell).replace("\n", "\n  ") for key, cell in self._children.items()
        ]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class SequentialRNNCell(_Stack):
    """Cells one above the other.

    Args:
        prefix, params: as of ``Block``.
    """


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Cells one above the other, each of which can be compiled.

    Args:
        prefix, params: as of ``Block``.
    """


class BidirectionalCell(_Container, HybridRecurrentCell):
    """One cell from the first step to the last, another from the last to the first.

    Outputs are both, side by side. It can only be unrolled.

    Args:
        l_cell: forwards.
        r_cell: backwards.
        output_prefix: of the outputs' names.
    """

    def __init__(
        self, l_cell: RecurrentCell, r_cell: RecurrentCell, output_prefix: str = "bi_"
    ) -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def forward(self, *args: Any) -> Any:
        """Raise NotImplementedError: the last step comes first for one of the cells."""
        raise NotImplementedError(NOT_STEPPED)

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll both cells and join their outputs; see ``RecurrentCell.unroll``."""
        self.reset()
        steps, axis, functions, batch_size = format_sequence(length, inputs, layout, False)
        backwards = reverse_sequences(steps, length, valid_length)
        states = first_states(self, functions, begin_state, steps, batch_size)
        left, right = self._children.values()
        assert isinstance(left, RecurrentCell)
        assert isinstance(right, RecurrentCell)
        count = len(left.state_info(batch_size))
        l_outputs, l_states = left.unroll(
            length, steps, states[:count], layout, merge_outputs, valid_length
        )
        r_outputs, r_states = right.unroll(
            length, backwards, states[count:], layout, False, valid_length
        )
        r_outputs = reverse_sequences(r_outputs, length, valid_length)
        merge = is_merged(l_outputs) if merge_outputs is None else merge_outputs
        if merge:
            outputs = functions.concat(
                l_outputs,
                functions.stack(*r_outputs, axis=axis),
                dim=2,
                name=f"{self._output_prefix}out",
            )
        else:
            outputs = [
                functions.concat(*pair, dim=1, name=f"{self._output_prefix}t{step}")
                for step, pair in enumerate(zip(l_outputs, r_outputs, strict=True))
            ]
        if valid_length is not None:
            outputs = mask_padding(functions, outputs, length, valid_length, axis, merge)
        return outputs, l_states + r_states

    def __repr__(self) -> str:
        left, right = self._children.values()
        return f"{type(self).__name__}(forward={left!r}, backward={right!r})"


NOT_STEPPED = "Bidirectional cells cannot be stepped. Please use unroll"
