"""The fused recurrent network: layers of LSTM, GRU or plain cells, in one or both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..capabilities import layers as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError, ShapeError
from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register
from .rnn_cells import CELLS
from .rnn_layout import (
    CellParameters,
    LayerReserve,
    ReserveLayout,
    parameter_size,
    split_parameters,
)
from .rnn_recurrence import CellArrays, CellGradients, Recurrence, StateClip
from .softmax import positions

__all__ = ["RNN"]


@register("RNN", "_npx_rnn")
@implements(kinds.RNN)
class RNN(Operator):
    """Run ``num_layers`` recurrent layers over sequences.

    ``data`` is (steps, batch, inputs). ``parameters`` is a vector of all weights and then all
    biases in cuDNN's order (see ``core.ops.rnn_layout``). ``state``, and for LSTM ``state_cell``,
    are (layers · directions, batch, state_size). The output is (steps, batch, directions ·
    state_size); ``state_outputs`` shows the last states too. Where an LSTM's outputs are projected,
    output and ``state`` have ``projection_size`` instead of ``state_size``.

    Equations are cuDNN's: the GRU's reset gate multiplies the hidden part of the candidate, bias
    included. In training, ``p`` of each layer's output but the last is dropped. With
    ``use_sequence_length`` every sequence of the batch has a length of its own: the output behind
    it is zero, its last state is that of its last step, and the reversed direction begins there.

    What ``backward`` needs is kept in a hidden output, so that nothing is computed twice. In a plan
    for inference it lives only while the operator runs, and its memory serves other steps.
    """

    names_outputs: ClassVar[bool] = True

    all_inputs: ClassVar[tuple[str, ...]] = (
        "data",
        "parameters",
        "state",
        "state_cell",
        "sequence_length",
    )
    uses_random: ClassVar[bool] = True

    state_size: int = attribute(minimum=1, doc="elements of the state")
    num_layers: int = attribute(minimum=1, doc="layers, one on the other")
    bidirectional: bool = attribute(default=False, doc="whether each layer runs backwards, too")
    mode: str = attribute(choices=("rnn_relu", "rnn_tanh", "lstm", "gru"), doc="the kind of cell")
    p: float = attribute(
        default=0.0, minimum=0, maximum=1, doc="part of the elements that is dropped between layers"
    )
    state_outputs: bool = attribute(default=False, doc="whether the last states are outputs, too")
    projection_size: int | None = attribute(
        default=None, minimum=1, doc="elements that an LSTM's outputs are projected to"
    )
    lstm_state_clip_min: float | None = attribute(
        default=None, doc="least value of an LSTM's memory, together with the greatest"
    )
    lstm_state_clip_max: float | None = attribute(
        default=None, doc="greatest value of an LSTM's memory, together with the least"
    )
    lstm_state_clip_nan: bool = attribute(
        default=False, doc="whether clipping makes NaN the least value"
    )
    use_sequence_length: bool = attribute(
        default=False, doc="whether an input says how long each sequence is"
    )

    def __post_init__(self) -> None:
        low, high = self.lstm_state_clip_min, self.lstm_state_clip_max
        if not self.has_memory:
            for name in ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max"):
                if getattr(self, name) is not None:
                    raise AttributeValueError(
                        f"{name} is {getattr(self, name)} and mode {self.mode!r}; only mode 'lstm' "
                        f"has it"
                    )
        if self.projection_size is not None and self.projection_size > self.state_size:
            raise AttributeValueError(
                f"projection_size is {self.projection_size}; expected at most state_size, "
                f"{self.state_size}"
            )
        if (low is None) != (high is None):
            raise AttributeValueError(
                f"lstm_state_clip_min is {low} and lstm_state_clip_max {high}; set both or neither"
            )
        if low is not None and high is not None and low > high:
            raise AttributeValueError(
                f"lstm_state_clip_min is {low}; expected at most lstm_state_clip_max, {high}"
            )

    @property
    def directions(self) -> int:
        """1, or 2 when bidirectional."""
        return 2 if self.bidirectional else 1

    @property
    def cell(self) -> type[Recurrence]:
        """The recurrence of the mode."""
        return CELLS[self.mode]

    @property
    def has_memory(self) -> bool:
        """Whether there is a second state."""
        return self.mode == "lstm"

    @property
    def output_size(self) -> int:
        """Elements of a state and of the output in one direction."""
        return self.projection_size or self.state_size

    @property
    def clip(self) -> StateClip | None:
        """The range of the memory; None where it is not clipped."""
        low, high = self.lstm_state_clip_min, self.lstm_state_clip_max
        return (
            None
            if low is None or high is None
            else StateClip(low, high, stops_nan=self.lstm_state_clip_nan)
        )

    def input_names(self) -> tuple[str, ...]:
        memory = ("state_cell",) if self.has_memory else ()
        lengths = ("sequence_length",) if self.use_sequence_length else ()
        return ("data", "parameters", "state", *memory, *lengths)

    def output_names(self) -> tuple[str, ...]:
        states = ("state_output", "statecell_output") if self.has_memory else ("state_output",)
        return ("output", *(states if self.state_outputs else ()), "reserve")

    def visible_outputs(self) -> int:
        return len(self.output_names()) - 1

    def stored_outputs(self) -> int:
        """MXNet keeps what ``backward`` needs outside of the graph."""
        return self.visible_outputs()

    # -- inference --------------------------------------------------------------------------

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) != 3:
            raise ShapeError(f"data has shape {data}; expected (steps, batch, inputs)")
        width = self.directions * self.output_size
        output = self.expect("output", outputs[0], (*data[:2], width))
        data = (*output[:2], data[2])
        size = self.parameter_size(data[2]) if data[2] else 0
        parameters = self.expect("parameters", inputs[1], (size,))
        count = self.num_layers * self.directions
        state, memory = (count, data[1], self.output_size), (count, data[1], self.state_size)
        shapes = [state, memory] if self.has_memory else [state]
        lengths = [data[1:2]] if self.use_sequence_length else []
        states = [
            self.expect(name, given, shape)
            for name, given, shape in zip(
                self.input_names()[2:], inputs[2:], shapes + lengths, strict=True
            )
        ]
        reserve = (self._reserve_layout(data).size(),)
        shown = shapes if self.state_outputs else []
        return [data, parameters, *states], [output, *shown, reserve]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        lengths = inputs[-1] if self.use_sequence_length else None
        count = len(inputs) - self.use_sequence_length
        uniform, outputs = super().infer_type(inputs[:count], outputs)
        if self.use_sequence_length:
            uniform.append(lengths or uniform[0])
        return uniform, outputs

    def parameter_size(self, inputs: int) -> int:
        """Return the length of the parameter vector for so many inputs."""
        return parameter_size(
            self.num_layers,
            self.directions,
            inputs,
            self.state_size,
            self.cell.gate_count,
            self.projection_size,
        )

    def _reserve_layout(self, data: Shape) -> ReserveLayout:
        return ReserveLayout(
            steps=data[0],
            batch=data[1],
            hidden=self.state_size,
            state=self.output_size,
            gates=self.cell.gate_count,
            layers=self.num_layers,
            directions=self.directions,
            has_kept=self.cell.has_kept,
            has_dropout=self.p > 0,
        )

    # -- facts for the planner --------------------------------------------------------------

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return tuple(range(count - self.use_sequence_length))

    def backward_reads(self) -> Reads:
        return Reads(
            inputs=tuple(range(len(self.input_names()))), outputs=(0, self.visible_outputs())
        )

    # -- arithmetic -------------------------------------------------------------------------

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        ended = self._ended(run, inputs)
        recurrence = self._recurrence(run, outputs[0], ended, is_backward=False)
        reserves = self._reserves(inputs[0], outputs)
        states = outputs[1 : self.visible_outputs()]
        for layer, cells in enumerate(self._cells(run, inputs, outputs[0], reserves)):
            for side, cell in enumerate(cells):
                recurrence.forward(cell, *self._states_of(states, layer, side))
            self._drop(run, reserves[layer])
        if ended is not None:
            run.xp.copyto(outputs[0], 0, where=ended)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        ended = self._ended(run, inputs)
        recurrence = self._recurrence(run, outputs[0], ended, is_backward=True)
        reserves = self._reserves(inputs[0], outputs)
        cells = self._cells(run, inputs, outputs[0], reserves)
        parameters = None if in_grads[1] is None else self.split(in_grads[1], inputs[0])
        # A layer reads its gradient from one of these and writes that of the layer below to the
        # other.
        between = [
            run.scratch(outputs[0].shape, outputs[0].dtype)
            for _ in range(min(2, self.num_layers - 1))
        ]
        grad = self._without_ended(run, out_grads[0], ended)
        for layer in range(self.num_layers - 1, -1, -1):
            target = between[layer % len(between)] if layer else in_grads[0]
            for side, cell in enumerate(cells[layer]):
                last_state, last_memory = self._states_of(
                    out_grads[1 : self.visible_outputs()], layer, side
                )
                state, memory = self._states_of(in_grads[2 : 3 + self.has_memory], layer, side)
                grads = CellGradients(
                    output=self._side(grad, side),
                    last_state=last_state,
                    last_memory=last_memory,
                    data=target,
                    adds_data=side > 0,
                    state=state,
                    memory=memory,
                    parameters=None if parameters is None else parameters[layer][side],
                )
                recurrence.backward(cell, grads)
            if layer and self._drops(run):
                run.xp.multiply(target, reserves[layer - 1].mask, out=target)
            grad = target

    def _recurrence(
        self, run: Run, out: Array, ended: Array | None, *, is_backward: bool
    ) -> Recurrence:
        steps, batch, _ = out.shape
        return self.cell(
            run,
            steps,
            batch,
            self.state_size,
            self.output_size,
            out.dtype,
            ended,
            clip=self.clip,
            is_backward=is_backward,
        )

    def _cells(
        self, run: Run, inputs: Sequence[Array], out: Array, reserves: list[LayerReserve]
    ) -> list[list[CellArrays]]:
        """Return the arrays of every layer and direction."""
        data = inputs[0]
        parameters = self.split(inputs[1], data)
        result = []
        for layer, reserve in enumerate(reserves):
            output = out if reserve.output is None else reserve.output
            cells = []
            for side in range(self.directions):
                state, memory = self._states_of(inputs[2 : 3 + self.has_memory], layer, side)
                cells.append(
                    CellArrays(
                        parameters=parameters[layer][side],
                        data=data,
                        state=state,
                        memory=memory,
                        output=self._side(output, side),
                        gates=reserve.gates[side],
                        kept=reserve.kept[side] if reserve.kept else None,
                        is_reversed=side == 1,
                    )
                )
            result.append(cells)
            data = reserve.dropped if self._drops(run) else output
        return result

    def split(self, vector: Array, data: Array) -> list[list[CellParameters]]:
        """Return views of a parameter vector by layer and direction; ``data`` for its sizes."""
        return split_parameters(
            vector,
            self.num_layers,
            self.directions,
            data.shape[2],
            self.state_size,
            self.cell.gate_count,
            self.projection_size,
        )

    def _reserves(self, data: Array, outputs: Sequence[Array]) -> list[LayerReserve]:
        return self._reserve_layout(data.shape).split(outputs[self.visible_outputs()])

    def _states_of(self, states: Sequence[Array | None], layer: int, side: int) -> tuple[Any, Any]:
        """Return state and memory of one layer and direction; None for one that is missing."""
        index = layer * self.directions + side
        state, memory = (*(None if s is None else s[index] for s in states), None, None)[:2]
        return state, memory

    def _side(self, output: Array, side: int) -> Array:
        return output[..., side * self.output_size : (side + 1) * self.output_size]

    def _ended(self, run: Run, inputs: Sequence[Array]) -> Array | None:
        """Return True where a sequence is over (steps, batch, 1), or None without lengths."""
        if not self.use_sequence_length:
            return None
        lengths = inputs[-1]
        steps, batch, _ = inputs[0].shape
        ended = run.scratch((steps, batch, 1), "bool")
        step = positions(run, steps, lengths.dtype).reshape(-1, 1, 1)
        run.xp.greater_equal(step, lengths.reshape(1, -1, 1), out=ended)
        return ended

    def _without_ended(self, run: Run, grad: Array, ended: Array | None) -> Array:
        if ended is None:
            return grad
        masked = run.scratch(grad.shape, grad.dtype)
        run.xp.copyto(masked, grad)
        run.xp.copyto(masked, 0, where=ended)
        return masked

    def _drops(self, run: Run) -> bool:
        return self.p > 0 and run.is_train

    def _drop(self, run: Run, reserve: LayerReserve) -> None:
        """Apply dropout to the output of a layer; the last layer has no mask."""
        mask = reserve.mask
        if mask is None or not self._drops(run):
            return
        keeps = 1 - self.p
        # With p 1 everything is dropped, whatever the factor is.
        run.random.bernoulli(mask, keeps, 1 / keeps if keeps else 1.0)
        run.xp.multiply(reserve.output, mask, out=reserve.dropped)
