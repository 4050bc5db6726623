"""Cells that change what another cell does: dropout, zoneout, residual connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from .. import symbol
from ..errors import UsageError
from ..ndarray import NDArray
from ..symbol import Symbol
from .base import BaseRNNCell, Inputs, RNNParams, Weights, as_sequence
from .containers import BidirectionalCell

__all__ = ["DropoutCell", "ModifierCell", "ResidualCell", "ZoneoutCell"]


class DropoutCell(BaseRNNCell):
    """Applies dropout to the input; it has no state.

    Args:
        dropout: the fraction of elements that is dropped.
        prefix: of names.
        params: variables shared with other cells.
    """

    def __init__(
        self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None
    ) -> None:
        super().__init__(prefix, params)
        if not isinstance(dropout, Real):
            raise UsageError(f"dropout is {dropout!r}; expected a number")
        self.dropout: float = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """No states."""
        return []

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        if self.dropout > 0:
            inputs = symbol.Dropout(data=inputs, p=self.dropout)
        return inputs, list(states)

    def unroll(
        self,
        length: int,
        inputs: Inputs,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Apply dropout to all steps, by one operator if they are one symbol."""
        self.reset()
        inputs, _ = as_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """Base of cells that wrap another one, which must not be called by itself any more.

    Args:
        base_cell: the cell inside.
    """

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        """The variables of the cell inside."""
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """States of the cell inside."""
        return self.base_cell.state_info

    def begin_state(  # type: ignore[override]
        self, init_sym: Callable[..., Symbol] = symbol.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the states of the cell inside before the first step."""
        self._require_unmodified()
        func = kwargs.pop("func", init_sym)
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with the weights of the cell inside divided by gate."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with the gates of the cell inside joined."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Keeps a random part of outputs and states as they were (Krueger et al., arXiv:1606.01305).

    Args:
        base_cell: the cell inside; one that can be stepped.
        zoneout_outputs, zoneout_states: the fractions kept.
    """

    def __init__(
        self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        if base_cell.is_fused:
            raise UsageError("FusedRNNCell doesn't support zoneout; call unfuse() first")
        if isinstance(base_cell, BidirectionalCell):
            raise UsageError(
                "BidirectionalCell doesn't support zoneout since it cannot be stepped; put "
                "ZoneoutCell on the cells inside it instead"
            )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self.prev_output: Symbol | None = None

    def reset(self) -> None:
        """Forget the last output, too."""
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        output, new_states = self.base_cell(inputs, states)
        if self.zoneout_outputs != 0:
            # Before the first output there are zeros, whose shape is inferred from ``where``.
            before = self.prev_output if self.prev_output is not None else symbol.zeros((0, 0))
            output = _mixed(self.zoneout_outputs, output, before)
        if self.zoneout_states != 0:
            new_states = [
                _mixed(self.zoneout_states, new, old)
                for new, old in zip(new_states, states, strict=True)
            ]
        self.prev_output = output
        return output, new_states


class ResidualCell(ModifierCell):
    """Adds the input to the output (Wu et al., arXiv:1609.08144).

    Args:
        base_cell: the cell inside; its outputs must have the shape of its inputs.
    """

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        output, new_states = self.base_cell(inputs, states)
        return _plus_residual(output, inputs), new_states

    def unroll(
        self,
        length: int,
        inputs: Inputs,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll the cell inside; add the inputs to its outputs."""
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(
                length, inputs, begin_state, layout, merge_outputs
            )
        finally:
            self.base_cell._modified = True
        if merge_outputs is None:
            merge_outputs = isinstance(outputs, Symbol)
        inputs, _ = as_sequence(length, inputs, layout, merge_outputs)
        if merge_outputs:
            return _plus_residual(outputs, inputs), states
        return [_plus_residual(*pair) for pair in zip(outputs, inputs or (), strict=True)], states


def _mixed(fraction: float, new: Symbol, old: Symbol) -> Symbol:
    # Dropout of ones is 0 or 1 / (1 - p): a mask. In inference it is 1 everywhere, so all is new.
    mask = symbol.Dropout(symbol.ones_like(new), p=fraction)
    mixed: Symbol = symbol.where(mask, new, old)
    return mixed


def _plus_residual(output: Symbol, inputs: Any) -> Symbol:
    total: Symbol = symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")
    return total
