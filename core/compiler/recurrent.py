"""A unidirectional recurrent layer, which replaces the unrolled cells of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..capabilities.fused import RECURRENT
from ..capabilities.kinds import implements
from ..ops import Reads, Run
from ..ops.rnn import RNN
from ..ops.rnn_layout import CellParameters
from ..types import Array, Shape
from .primitives import Primitive

__all__ = ["RecurrentLayer"]

_PARAMETERS = CellParameters._fields[:-1]
"""Without the projection, which no such layer has."""


@implements(RECURRENT)
class RecurrentLayer(Primitive):
    """The fused ``RNN`` operator with one layer, whose parameters are separate arrays.

    Inputs: data (steps, batch, inputs); states (batch, hidden), for LSTM the memory too; weights
    (gates · hidden, columns) and biases (gates · hidden,) of the input and of the state. Outputs:
    states after all steps (steps, batch, hidden), the last state, the last memory, and what
    ``RNN`` keeps for its backward pass.

    Attributes:
        rnn: the ``RNN`` operator.
        order: for each gate in ``RNN``'s order, its position in the rows of the graph's weights.
    """

    names = ("_plan_recurrent",)

    is_costly: ClassVar[bool] = True

    def __init__(self, mode: str, hidden: int, order: tuple[int, ...]) -> None:
        self.rnn = RNN(state_size=hidden, num_layers=1, mode=mode, state_outputs=True)
        self.order = order

    @property
    def state_count(self) -> int:
        """Number of states of a cell: 2 for LSTM, else 1."""
        return 1 + self.rnn.has_memory

    def input_names(self) -> tuple[str, ...]:
        states = ("state", "memory")[: self.state_count]
        return ("data", *states, *_PARAMETERS)

    def output_names(self) -> tuple[str, ...]:
        return self.rnn.output_names()

    def visible_outputs(self) -> int:
        return 1 + self.state_count

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        assert data is not None
        steps, batch, columns = data
        hidden, rows = self.rnn.state_size, len(self.order) * self.rnn.state_size
        states: list[Shape | None] = [(batch, hidden)] * self.state_count
        parameters = [(rows, columns), (rows, hidden), (rows,), (rows,)]
        _, found = self.rnn.infer_shape([data, *[None] * (1 + len(states))], [None] * len(outputs))
        return [data, *states, *parameters], [(steps, batch, hidden), *states, found[-1]]

    def backward_reads(self) -> Reads:
        return Reads(
            inputs=tuple(range(len(self.input_names()))), outputs=(0, self.visible_outputs())
        )

    def needs_every_gradient(self) -> bool:
        # ``RNN`` has one vector of parameters, whose gradient it computes as a whole.
        return True

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Join the parameters and run the layer."""
        self.rnn.forward(run, self._joined_inputs(run, inputs), self._with_layers(outputs))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Run the layer's backward and split the parameters' gradient."""
        data_grad, *grads = in_grads
        joined = self._joined_inputs(run, inputs)
        vector = run.scratch(joined[1].shape, joined[1].dtype)
        count = self.state_count
        states = self._with_layers((data_grad, *grads[:count]))
        self.rnn.backward(
            run,
            self._with_layers(out_grads),
            joined,
            self._with_layers(outputs),
            [states[0], vector, *states[1:]],
        )
        for target, source in zip(grads[count:], self._parts(vector, inputs[0]), strict=True):
            for gate, place in enumerate(self.order):
                run.xp.copyto(self._gate(target, place), self._gate(source, gate))

    def parameters(self, inputs: Sequence[Array | None]) -> CellParameters:
        """Return the parameters among the inputs, or among their gradients."""
        return CellParameters(*inputs[1 + self.state_count :])

    def _joined_inputs(self, run: Run, inputs: Sequence[Array]) -> list[Array]:
        """Return the inputs of ``RNN``, with all parameters in one vector."""
        data, *rest = inputs
        count = self.state_count
        vector = run.scratch((sum(one.size for one in rest[count:]),), data.dtype)
        for source, target in zip(rest[count:], self._parts(vector, data), strict=True):
            for gate, place in enumerate(self.order):
                run.xp.copyto(self._gate(target, gate), self._gate(source, place))
        return [data, vector, *(state[None] for state in rest[:count])]

    def _parts(self, vector: Array, data: Array) -> tuple[Array, ...]:
        return self.rnn.split(vector, data)[0][0][: len(_PARAMETERS)]

    def _gate(self, parameter: Array, index: int) -> Array:
        hidden = self.rnn.state_size
        return parameter[index * hidden : (index + 1) * hidden]

    def _with_layers(self, arrays: Sequence[Array]) -> list[Array]:
        """Add the axis for layers to all arrays but the first, which is the data."""
        states = slice(1, 1 + self.state_count)
        layered = [None if one is None else one[None] for one in arrays[states]]
        return [arrays[0], *layered, *arrays[states.stop :]]
