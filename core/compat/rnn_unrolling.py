"""MXNet's deprecated function to unroll a recurrent cell."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..rnn.base import BaseRNNCell
from ..symbol import Variable

__all__ = ["rnn_unroll"]


def rnn_unroll(
    cell: BaseRNNCell,
    length: int,
    inputs: Any = None,
    begin_state: Sequence[Any] | None = None,
    input_prefix: str = "",
    layout: str = "NTC",
) -> tuple[Any, list[Any]]:
    """Deprecated: call ``cell.unroll``. Without inputs, it creates one variable per step."""
    warnings.warn("rnn_unroll is deprecated; call cell.unroll", DeprecationWarning, stacklevel=2)
    if inputs is None:
        inputs = [Variable(f"{input_prefix}t{step}_data") for step in range(length)]
    return cell.unroll(length, inputs, begin_state, layout)
