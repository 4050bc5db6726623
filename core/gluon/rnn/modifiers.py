"""Cells of gluon that change what another cell does: dropout, zoneout, residual connections."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from ... import symbol
from ...errors import UsageError
from ..parameter_dict import ParameterDict
from .base_cell import HybridRecurrentCell, RecurrentCell
from .containers import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell
from .sequences import format_sequence, is_merged, mask_padding

__all__ = ["DropoutCell", "ModifierCell", "ResidualCell", "ZoneoutCell", "has_both_directions"]


class DropoutCell(HybridRecurrentCell):
    """Drops a part of the input; it has no state.

    Args:
        rate: the part.
        axes: axes along which the same elements are dropped.
        prefix, params: as of ``Block``.
    """

    _rate: float
    _axes: tuple[int, ...]

    def __init__(
        self,
        rate: float,
        axes: tuple[int, ...] = (),
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        if not isinstance(rate, Real):
            raise UsageError(f"rate must be a number, got {rate!r}")
        self._rate, self._axes = rate, axes

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """No states."""
        return []

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        if self._rate > 0:
            x = F.Dropout(data=x, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return x, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Drop from all steps, at once if they are one array or symbol."""
        self.reset()
        inputs, _, functions, _ = format_sequence(length, inputs, layout, merge_outputs)
        if is_merged(inputs):
            outputs, states = self.hybrid_forward(functions, inputs, begin_state or [])
            return outputs, states
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)

    def _alias(self) -> str:
        return "dropout"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"


class ModifierCell(HybridRecurrentCell):
    """Base of cells that wrap another one, which must not be called by itself any more.

    Args:
        base_cell: the cell inside.

    Raises:
        UsageError: it is inside another modifier already.
    """

    base_cell: RecurrentCell

    def __init__(self, base_cell: RecurrentCell) -> None:
        if base_cell._modified:
            raise UsageError(
                f"Cell {base_cell.name} is already modified. One cell cannot be modified twice"
            )
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        """The parameters of the cell inside."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return shape and layout of the states of the cell inside."""
        return self.base_cell.state_info(batch_size)

    def begin_state(  # type: ignore[override]
        self, func: Callable[..., Any] = symbol.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the states of the cell inside before the first step."""
        self._require_unmodified()
        self.base_cell._modified = False  # or its own check would refuse the call
        try:
            return self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell!r})"


class ZoneoutCell(ModifierCell):
    """Keeps a random part of outputs and states as they were (Krueger et al., arXiv:1606.01305).

    Args:
        base_cell: the cell inside; one that can be stepped (UsageError).
        zoneout_outputs, zoneout_states: the parts kept.
    """

    def __init__(
        self, base_cell: RecurrentCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0
    ) -> None:
        if has_both_directions(base_cell):
            raise UsageError(
                "BidirectionalCell doesn't support zoneout since it doesn't support step. Please "
                "add ZoneoutCell to the cells underneath instead."
            )
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self._prev_output: Any = None

    def reset(self) -> None:
        """Forget the last output, too."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        output, following = self.base_cell(x, states)
        if self.zoneout_outputs != 0:
            before = self._prev_output
            before = F.zeros_like(output) if before is None else before
            output = _mixed(F, self.zoneout_outputs, output, before)
        if self.zoneout_states != 0:
            following = [
                _mixed(F, self.zoneout_states, new, old)
                for new, old in zip(following, states, strict=True)
            ]
        self._prev_output = output
        return output, following

    def _alias(self) -> str:
        return "zoneout"

    def __repr__(self) -> str:
        parts = f"p_out={self.zoneout_outputs}, p_state={self.zoneout_states}"
        return f"{type(self).__name__}({parts}, {self.base_cell!r})"


class ResidualCell(ModifierCell):
    """Adds the input to the output (Wu et al., arXiv:1609.08144).

    Args:
        base_cell: the cell inside; its outputs are shaped as its inputs.
    """

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        output, states = self.base_cell(x, *args)
        return F.elemwise_add(output, x, name=f"t{self._counter}_fwd"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll the cell inside; add the inputs to its outputs."""
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(
                length, inputs, begin_state, layout, merge_outputs, valid_length
            )
        finally:
            self.base_cell._modified = True
        merge = is_merged(outputs) if merge_outputs is None else merge_outputs
        inputs, axis, functions, _ = format_sequence(length, inputs, layout, merge)
        if valid_length is not None:
            inputs = mask_padding(functions, inputs, length, valid_length, axis, merge)
        if merge:
            return functions.elemwise_add(outputs, inputs), states
        return [functions.elemwise_add(*pair) for pair in zip(outputs, inputs, strict=True)], states


def has_both_directions(cell: RecurrentCell) -> bool:
    """Tell whether a cell cannot be stepped, since it or one in it runs in both directions."""
    if isinstance(cell, (SequentialRNNCell, HybridSequentialRNNCell)):
        return any(has_both_directions(one) for one in cell)
    return isinstance(cell, BidirectionalCell)


def _mixed(F: Any, part: float, new: Any, old: Any) -> Any:
    # Dropout makes some ones zeros and scales the others, which `where` takes as true; outside of
    # training it changes nothing, so that all are new.
    mask = F.Dropout(F.ones_like(new), p=part)
    return F.where(mask, new, old)
