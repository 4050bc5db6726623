"""MXNet's deprecated function to unroll a recurrent cell."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol

from ..symbol import Variable

__all__ = ["rnn_unroll"]


class _Cell(Protocol):
    def unroll(
        self, length: int, inputs: Any, begin_state: Sequence[Any] | None, layout: str
    ) -> tuple[Any, list[Any]]: ...


def rnn_unroll(
    cell: _Cell,
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
