"""The base of all recurrent cells: named variables, steps, unrolling, packing of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from .. import symbol
from ..errors import UsageError
from ..ndarray import NDArray, concatenate
from ..symbol import Symbol

__all__ = ["BaseRNNCell", "RNNParams", "Weights", "as_sequence"]

Weights = Mapping[str, NDArray]
Inputs = Symbol | Sequence[Symbol] | None


def as_sequence(
    length: int | None,
    inputs: Inputs,
    layout: str,
    merge: bool | None,
    in_layout: str | None = None,
) -> tuple[Any, int]:
    """Return inputs as one symbol, or as a symbol per step, and the time axis.

    Args:
        length: number of steps; None for the number of ``inputs`` in a list.
        inputs: one symbol with a time axis, or a symbol per step.
        layout: such as ``"NTC"``; ``T`` marks the time axis.
        merge: True for one symbol, False for one per step, None for whatever is given.
        in_layout: layout of a merged input, if it differs from ``layout``.

    Raises:
        UsageError: None, a grouped symbol, or another number of symbols than steps.
    """
    if inputs is None:
        raise UsageError(
            "unroll(inputs=None) has been deprecated; create the input variables outside unroll"
        )
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    if isinstance(inputs, Symbol):
        if merge is False:
            if len(inputs.list_outputs()) != 1:
                raise UsageError(
                    "unroll doesn't allow a grouped symbol as input; convert it with list(inputs) "
                    "first, or let unroll split one symbol"
                )
            split = symbol.split(inputs, axis=in_axis, num_outputs=length, squeeze_axis=1)
            return list(split), axis
    else:
        if length is not None and len(inputs) != length:
            raise UsageError(f"{len(inputs)} inputs for {length} steps")
        if merge is not True:
            return inputs, axis
        inputs = symbol.Concat(*(symbol.expand_dims(one, axis=axis) for one in inputs), dim=axis)
        in_axis = axis
    if axis != in_axis:
        inputs = symbol.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis


class RNNParams:
    """Variables by name, made when first asked for; cells share weights by sharing it.

    Args:
        prefix: put before the name of every variable.

    Attributes:
        is_shared: whether it belongs to more than the cell that made it.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}
        self.is_shared = False

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """Return the variable of a name; ``kwargs`` are those of ``symbol.Variable``."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """Base of all cells (``mx.rnn.BaseRNNCell``).

    A subclass defines ``state_info`` and what one step computes (``__call__``).

    Args:
        prefix: put before the names of layers, and of weights where ``params`` is None.
        params: variables shared with other cells.
    """

    is_fused: ClassVar[bool] = False
    """Whether all steps are one operator, so that the cell cannot take a single step."""
    _num_hidden: int
    _cells: list[BaseRNNCell]

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        if params is not None:
            params.is_shared = True
        self._params = RNNParams(prefix) if params is None else params
        self._prefix = prefix
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Start the numbering of steps and states again, to build another graph."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step.

        Args:
            inputs: (batch, features).
            states: of the step before, or ``begin_state()``.

        Returns:
            the output and the new states.
        """
        raise NotImplementedError(f"{type(self).__name__} must define __call__, its one step")

    @property
    def params(self) -> RNNParams:
        """The variables; another cell that is given them shares them."""
        return self._params

    @property
    def _own_params(self) -> bool:
        """Whether no other cell has the variables."""
        return not self._params.is_shared

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shape (0 for the batch) and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} must define state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shape of each state."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        return ()

    def begin_state(self, func: Callable[..., Symbol] = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Return the states before the first step.

        Args:
            func: makes each: ``symbol.zeros``, ``symbol.Variable`` for states that are fed, ...
            **kwargs: passed to ``func``, such as ``dtype`` or ``mean``.
        """
        self._require_unmodified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            # As in MXNet, one state's facts stay for the next where that one has none of its own.
            kwargs.update(info or {})
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **kwargs))
        return states

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with this cell's weights and biases divided by gate."""
        unpacked = dict(args)
        if not self._gate_names:
            return unpacked
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                packed = unpacked.pop(f"{self._prefix}{group}_{kind}")
                for position, gate in enumerate(self._gate_names):
                    start = position * self._num_hidden
                    rows = packed[start : start + self._num_hidden]
                    unpacked[f"{self._prefix}{group}{gate}_{kind}"] = rows.copy()
        return unpacked

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with the gates joined: the reverse of ``unpack_weights``."""
        packed = dict(args)
        if not self._gate_names:
            return packed
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                gates = [
                    packed.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names
                ]
                packed[f"{self._prefix}{group}_{kind}"] = concatenate(gates)
        return packed

    def unroll(
        self,
        length: int,
        inputs: Inputs,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Take ``length`` steps.

        Args:
            length: number of steps.
            inputs: one symbol (batch, length, ...) in ``layout``, or one (batch, ...) per step.
            begin_state: states before the first step; None for ``begin_state()``.
            layout: ``"NTC"`` or ``"TNC"``.
            merge_outputs: True for one symbol in ``layout``, False for one per step, None for
                whatever needs no further operator.

        Returns:
            the outputs and the states after the last step.
        """
        self.reset()
        steps, _ = as_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else list(begin_state)
        outputs = []
        for step in range(length):
            output, states = self(steps[step], states)
            outputs.append(output)
        merged, _ = as_sequence(length, outputs, layout, merge_outputs)
        return merged, states

    def _get_activation(self, inputs: Symbol, activation: Any, **kwargs: Any) -> Any:
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)

    def _require_unmodified(self) -> None:
        if self._modified:
            raise UsageError(
                f"{type(self).__name__} is inside a modifier cell (such as ZoneoutCell); "
                "call the modifier cell instead"
            )
