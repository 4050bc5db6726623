"""What the recurrent cells of gluon share: states, steps, unrolling."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ... import ndarray
from ...errors import UsageError
from ...ndarray import NDArray
from ..base_block import Block
from ..hybrid_block import HybridBlock
from ..nn import LeakyReLU
from ..parameter_dict import ParameterDict
from .sequences import format_sequence, is_merged, mask_padding

__all__ = ["HybridRecurrentCell", "RecurrentCell", "first_states", "make_state"]


def make_state(func: Callable[..., Any], name: str, info: dict[str, Any]) -> Any:
    """Return a state made by a function of arrays or symbols.

    Args:
        func: the function; it is given ``name`` and ``__layout__`` if it takes them, as
            functions of symbols do.
        name: of the state.
        info: the other arguments.
    """
    takes = inspect.signature(func).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    arguments = {"name": name, **info}
    for optional in ("name", "__layout__"):
        if not takes_all and optional not in takes:
            arguments.pop(optional, None)
    return func(**arguments)


def first_states(cell: Any, functions: Any, begin_state: Any, inputs: Any, batch: int) -> Any:
    """Return the states given, else zeros, on the device of the inputs."""
    if begin_state is not None:
        return begin_state
    if functions is not ndarray:
        return cell.begin_state(func=functions.zeros, batch_size=batch)
    first: NDArray = inputs if is_merged(inputs) else inputs[0]
    with first.context:
        return cell.begin_state(func=functions.zeros, batch_size=batch)


class RecurrentCell(Block):
    """Base of all cells (``mx.gluon.rnn.RecurrentCell``).

    A subclass defines ``state_info`` and what one step computes (``forward``).

    Args:
        prefix, params: as of ``Block``.
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Start the numbering of steps and states again, for another sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return shape and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} must define state_info")

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = ndarray.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the states before the first step.

        Args:
            batch_size: how many sequences there are; 0 leaves it open, for symbols.
            func: what makes them: ``mx.nd.zeros``, ``mx.sym.zeros``, ``mx.sym.var`` ...
            **kwargs: further arguments of ``func``, such as ``ctx`` or ``dtype``.
        """
        self._require_unmodified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(make_state(func, name, {**info, **kwargs}))
        return states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Take ``length`` steps.

        Args:
            length: number of steps.
            inputs: one array or symbol (batch, length, ...) in ``layout``, or one (batch, ...)
                for each step.
            begin_state: states before the first step; None for zeros.
            layout: ``"NTC"`` or ``"TNC"``.
            merge_outputs: True for one array or symbol in ``layout``, False for one a step,
                None for whatever needs no further operator.
            valid_length: (batch,), length of each sequence, if some are shorter: outputs
                beyond it are 0, and the states returned are those at its end.

        Returns:
            the outputs and the states after the last step.
        """
        self.reset()
        steps, axis, functions, batch_size = format_sequence(length, inputs, layout, False)
        states = first_states(self, functions, begin_state, steps, batch_size)
        outputs, all_states = [], []
        for step in range(length):
            output, states = self(steps[step], states)
            outputs.append(output)
            if valid_length is not None:
                all_states.append(states)
        found: Any = outputs
        if valid_length is not None:
            states = [
                functions.SequenceLast(
                    functions.stack(*of_steps, axis=0),
                    sequence_length=valid_length,
                    use_sequence_length=True,
                    axis=0,
                )
                for of_steps in zip(*all_states, strict=True)
            ]
            found = mask_padding(functions, outputs, length, valid_length, axis, True)
        found, *_ = format_sequence(length, found, layout, merge_outputs)
        return found, states

    def forward(self, *args: Any) -> Any:
        """Take one step.

        Args:
            *args: the input (batch, features), and the states of the step before, or
                ``begin_state()``.

        Returns:
            the output and the new states.
        """
        self._counter += 1
        return super().forward(*args)

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        if activation in ("tanh", "relu", "sigmoid", "softsign"):
            return getattr(F, activation)(inputs, **kwargs)
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)

    def _require_unmodified(self) -> None:
        if self._modified:
            raise UsageError(
                f"{type(self).__name__} is inside a modifier cell (as ZoneoutCell); "
                "call the modifier cell instead"
            )


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """Base of cells that can be compiled; a subclass defines ``hybrid_forward``."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step by the functions of ``F``; parameters come as keyword arguments."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")


def states_of(cells: Sequence[Any], batch_size: int) -> list[dict[str, Any]]:
    """Return what cells say of their states, one after the other."""
    return [info for cell in cells for info in cell.state_info(batch_size)]
