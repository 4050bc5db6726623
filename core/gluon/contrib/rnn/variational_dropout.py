"""The same elements dropped at every step (Gal and Ghahramani, arXiv:1512.05287)."""

from __future__ import annotations

from typing import Any

from ....errors import UsageError
from ...rnn.base_cell import RecurrentCell, first_states
from ...rnn.modifiers import ModifierCell, has_both_directions
from ...rnn.sequences import format_sequence, is_merged, mask_padding

__all__ = ["VariationalDropoutCell"]


class VariationalDropoutCell(ModifierCell):
    """Drops the same elements at every step until ``reset`` is called, as ``unroll`` does.

    Args:
        base_cell: the cell inside.
        drop_inputs, drop_states, drop_outputs: parts of the input, the first state and the output
            that are dropped.

    Raises:
        UsageError: states are to be dropped in a cell that cannot be stepped.
    """

    drop_inputs_mask: Any
    drop_states_mask: Any
    drop_outputs_mask: Any

    def __init__(
        self,
        base_cell: RecurrentCell,
        drop_inputs: float = 0.0,
        drop_states: float = 0.0,
        drop_outputs: float = 0.0,
    ) -> None:
        if drop_states and has_both_directions(base_cell):
            raise UsageError(
                "BidirectionalCell doesn't support variational state dropout. Please add "
                "VariationalDropoutCell to the cells underneath instead."
            )
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states = drop_inputs, drop_states
        self.drop_outputs = drop_outputs
        self._forget_masks()

    def reset(self) -> None:
        """Draw other elements at the next step."""
        super().reset()
        self._forget_masks()

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        states = list(args[0])
        if self.drop_states:
            if self.drop_states_mask is None:
                self.drop_states_mask = _mask(F, states[0], self.drop_states)
            states[0] = states[0] * self.drop_states_mask
        if self.drop_inputs:
            if self.drop_inputs_mask is None:
                self.drop_inputs_mask = _mask(F, x, self.drop_inputs)
            x = x * self.drop_inputs_mask
        output, following = self.base_cell(x, states)
        if self.drop_outputs:
            if self.drop_outputs_mask is None:
                self.drop_outputs_mask = _mask(F, output, self.drop_outputs)
            output = output * self.drop_outputs_mask
        return output, following

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll the cell inside, between inputs and outputs with elements dropped."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        # Masks of the whole sequence, constant along the time axis, leave the cell inside free to
        # run all steps at once. Those of states are needed between the steps.
        inputs, axis, functions, batch_size = format_sequence(length, inputs, layout, True)
        states = first_states(self, functions, begin_state, inputs, batch_size)
        if self.drop_inputs:
            inputs = functions.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(
            length, inputs, states, layout, merge_outputs=True, valid_length=valid_length
        )
        if self.drop_outputs:
            outputs = functions.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = is_merged(outputs) if merge_outputs is None else merge_outputs
        outputs, *_ = format_sequence(length, outputs, layout, merge)
        if valid_length is not None:
            outputs = mask_padding(functions, outputs, length, valid_length, axis, merge)
        return outputs, states

    def _forget_masks(self) -> None:
        self.drop_inputs_mask = self.drop_states_mask = self.drop_outputs_mask = None

    def _alias(self) -> str:
        return "vardrop"

    def __repr__(self) -> str:
        parts = f"p_out = {self.drop_outputs}, p_state = {self.drop_states}"
        return f"{type(self).__name__}({parts})"


def _mask(F: Any, like: Any, part: float) -> Any:
    return F.Dropout(F.ones_like(like), p=part)
