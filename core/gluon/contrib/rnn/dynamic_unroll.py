"""A cell as the body of a loop, over sequences of any length."""

from __future__ import annotations

from typing import Any

from ...rnn.sequences import format_sequence, is_merged

__all__ = ["dynamic_unroll"]


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, list[Any]]:
    """Take a step for each element of the inputs' time axis.

    Args:
        cell: the cell.
        inputs: an array or symbol in ``layout``.
        begin_state: states before the first step.
        drop_inputs, drop_outputs: parts of inputs and outputs dropped, the same at every step.
        layout: ``"TNC"``, the faster one, or ``"NTC"``.
        valid_length: (batch,), length of each sequence: outputs beyond it are 0, and the states
            returned are those at its end.

    Returns:
        the outputs in ``layout`` and the states after the last step.
    """
    inputs, axis, F, _ = format_sequence(None, inputs, layout, True)
    if axis != 0:
        inputs = F.swapaxes(inputs, dim1=0, dim2=axis)
    if drop_inputs:
        # Time is the first axis now, whatever the layout.
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(0,))
    if valid_length is None:
        outputs, states = F.contrib.foreach(cell, inputs, begin_state)
    else:
        body = _ending_at(F, cell, valid_length)
        given = [begin_state] if is_merged(begin_state) else list(begin_state)
        outputs, states = F.contrib.foreach(body, inputs, [*given, F.zeros((1,))])
        states = states[:-1]
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if axis != 0:
        outputs = F.swapaxes(outputs, dim1=0, dim2=axis)
    if valid_length is not None:
        outputs = F.SequenceMask(
            outputs, sequence_length=valid_length, use_sequence_length=True, axis=axis
        )
    return outputs, states


def _ending_at(F: Any, cell: Any, valid_length: Any) -> Any:
    """Return a body that keeps the states of sequences at their end; its last state counts."""

    def body(inputs: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        *before, step = states
        output, after = cell(inputs, before)
        goes_on = F.broadcast_greater(valid_length, step)
        kept = [F.where(goes_on, new, old) for new, old in zip(after, before, strict=True)]
        return output, [*kept, step + 1]

    return body
