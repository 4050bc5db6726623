"""Sequences as one array (or symbol) with a time axis, or as one for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ndarray, symbol
from ...errors import UsageError
from ...ndarray import NDArray
from ...symbol import Symbol

__all__ = ["as_steps", "format_sequence", "is_merged", "mask_padding", "reverse_sequences"]


def is_merged(sequence: Any) -> bool:
    """Tell whether a sequence is one array or symbol."""
    return isinstance(sequence, (NDArray, Symbol))


def format_sequence(
    length: int | None,
    inputs: Any,
    layout: str,
    merge: bool | None,
    in_layout: str | None = None,
) -> tuple[Any, int, Any, int]:
    """Return a sequence in the form asked for.

    Args:
        length: number of steps; None or 0 for that of the sequence.
        inputs: one array or symbol with a time axis, or one for each step.
        layout: as ``"NTC"``; ``T`` marks the time axis.
        merge: True for one, False for one a step, None for whatever is given.
        in_layout: layout of a merged sequence, if it is another.

    Returns:
        the sequence, its time axis, ``mx.nd`` or ``mx.sym``, and the size of the batch (0 for
        symbols).

    Raises:
        UsageError: None, a grouped symbol, or another number of steps.
    """
    if inputs is None:
        raise UsageError(
            "unroll(inputs=None) has been deprecated; create the input variables outside unroll"
        )
    axis, batch_axis = layout.find("T"), layout.find("N")
    in_axis = axis if in_layout is None else in_layout.find("T")
    first = inputs if is_merged(inputs) else inputs[0]
    functions = symbol if isinstance(first, Symbol) else ndarray
    batch_size = 0
    if isinstance(first, NDArray):
        batch_size = first.shape[batch_axis if first is inputs else 0]
    if is_merged(inputs):
        if merge is False:
            inputs = _split(functions, length, inputs, in_axis)
    else:
        if length and len(inputs) != length:
            raise UsageError(f"{len(inputs)} inputs for {length} steps")
        if merge is True:
            inputs = functions.stack(*inputs, axis=axis)
            in_axis = axis
    if is_merged(inputs) and axis != in_axis:
        inputs = functions.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, functions, batch_size


def _split(functions: Any, length: int | None, inputs: Any, axis: int) -> list[Any]:
    if isinstance(inputs, NDArray):
        steps = inputs.shape[axis]
        if length is not None and length != steps:
            raise UsageError(
                f"inputs of shape {inputs.shape} have {steps} steps on axis {axis}, expected "
                f"{length}; mind the layout"
            )
        length = steps
    elif len(inputs.list_outputs()) != 1:
        raise UsageError(
            "unroll doesn't allow a grouped symbol as input; convert it with list(inputs) first, "
            "or let unroll split one symbol"
        )
    # MXNet's graphs say 1 here, True elsewhere.
    return as_steps(functions, inputs, length, axis, squeeze=1)


def as_steps(
    functions: Any, merged: Any, length: int | None, axis: int, squeeze: int = True
) -> list[Any]:
    """Return the steps of a merged sequence."""
    steps = functions.split(merged, axis=axis, num_outputs=length, squeeze_axis=squeeze)
    return [steps] if isinstance(steps, NDArray) else list(steps)


def mask_padding(
    functions: Any, data: Any, length: int, valid_length: Any, axis: int, merge: bool | None
) -> Any:
    """Return sequences with zeros beyond the length of each.

    Args:
        functions: ``mx.nd`` or ``mx.sym``.
        data: the sequence, in either form.
        length: number of steps.
        valid_length: (batch,), the lengths.
        axis: of time.
        merge: whether to return one array or symbol.
    """
    if not is_merged(data):
        data = functions.stack(*data, axis=axis)
    masked = functions.SequenceMask(
        data, sequence_length=valid_length, use_sequence_length=True, axis=axis
    )
    return masked if merge else as_steps(functions, masked, length, axis)


def reverse_sequences(steps: Sequence[Any], length: int, valid_length: Any = None) -> list[Any]:
    """Return the steps from the last to the first; padding stays at the end of its sequence."""
    if valid_length is None:
        return list(reversed(steps))
    functions = symbol if isinstance(steps[0], Symbol) else ndarray
    turned = functions.SequenceReverse(
        functions.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True
    )
    return as_steps(functions, turned, length, 0)
