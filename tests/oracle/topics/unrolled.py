"""Training passes of recurrent graphs, unrolled by hand or from cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CASES", "LENGTH", "SHAPES", "Case", "record", "run_case"]

BATCH, LENGTH, FEATURES, HIDDEN = 2, 4, 3, 5
SHAPES = {"data": (BATCH, LENGTH, FEATURES)}


class Case(NamedTuple):
    """A graph, and the number of layers to be found in it."""

    build: Callable[[Any], Any]
    layers: int


class _Layer:
    """Creates and caches a layer's variables."""

    def __init__(self, mx: Any, name: str) -> None:
        self.sym = mx.sym
        self._name = name
        self._variables: dict[str, Any] = {}

    def variable(self, name: str) -> Any:
        """Return a variable, always the same for a name."""
        if name not in self._variables:
            self._variables[name] = self.sym.Variable(f"{self._name}_{name}")
        return self._variables[name]

    def dense(self, data: Any, name: str, gates: int, *, has_bias: bool = True) -> Any:
        """Return a fully connected layer."""
        bias = {"bias": self.variable(f"{name}_bias")} if has_bias else {"no_bias": True}
        return self.sym.FullyConnected(
            data, self.variable(f"{name}_weight"), num_hidden=gates * HIDDEN, **bias
        )

    def begin(self, count: int) -> list[Any]:
        """Return the initial states."""
        return [
            self.sym.Variable(f"{self._name}_begin{i}", shape=(BATCH, HIDDEN)) for i in range(count)
        ]

    def lstm(self, data: Any, state: Any, memory: Any) -> tuple[Any, Any]:
        """One step; gates as in MXNet's example/rnn: input, candidate, forget, output."""
        act = self.sym.Activation
        gates = self.dense(data, "i2h", 4) + self.dense(state, "h2h", 4)
        write, candidate, forget, show = self.sym.SliceChannel(gates, num_outputs=4)
        memory = act(forget, act_type="sigmoid") * memory + act(write, act_type="sigmoid") * act(
            candidate, act_type="tanh"
        )
        return act(show, act_type="sigmoid") * act(memory, act_type="tanh"), memory

    def gru(self, data: Any, state: Any) -> Any:
        """One step as Gluon writes it, with another order of gates."""
        sym = self.sym
        ours = sym.SliceChannel(self.dense(data, "i2h", 3), num_outputs=3)
        theirs = sym.SliceChannel(self.dense(state, "h2h", 3, has_bias=False), num_outputs=3)
        update, reset = (sym.sigmoid(ours[i] + theirs[i]) for i in (1, 2))
        candidate = sym.tanh(ours[0] + reset * theirs[0])
        return (sym.ones_like(update) - update) * candidate + update * state

    def gru_stepwise(self, data: Any, state: Any) -> Any:
        """One step; the gate decides how much of the candidate is used."""
        sym = self.sym
        ours = sym.SliceChannel(self.dense(data, "i2h", 3), num_outputs=3)
        theirs = sym.SliceChannel(self.dense(state, "h2h", 3), num_outputs=3)
        reset, update = (sym.sigmoid(ours[i] + theirs[i]) for i in range(2))
        candidate = sym.tanh(reset * theirs[2] + ours[2])
        return update * (candidate - state) + state

    def gru_reset_first(self, data: Any, state: Any) -> Any:
        """One step of the GRU as first published (Cho et al. 2014), as in MXNet's example/rnn."""
        candidate, update = self._reset_first(data, state, 0)
        return state + update * (candidate - state)

    def gru_reset_first_blended(self, data: Any, state: Any) -> Any:
        """One step of that GRU with the gates swapped."""
        candidate, update = self._reset_first(data, state, 1)
        return (1 - update) * candidate + update * state

    def _reset_first(self, data: Any, state: Any, place: int) -> tuple[Any, Any]:
        sym = self.sym
        gates = sym.SliceChannel(
            self.dense(data, "gates_i2h", 2) + self.dense(state, "gates_h2h", 2), num_outputs=2
        )
        update, reset = (sym.Activation(gates[i], act_type="sigmoid") for i in (place, 1 - place))
        candidate = self.dense(data, "i2h", 1) + self.dense(reset * state, "h2h", 1)
        return sym.tanh(candidate), update

    def plain(self, data: Any, state: Any) -> Any:
        """One step of a cell without gates."""
        return self.sym.tanh(self.dense(state, "h2h", 1) + self.dense(data, "i2h", 1))


def _steps(mx: Any, axis: int = 1) -> list[Any]:
    data = mx.sym.Variable("data")
    if axis == 0:
        data = mx.sym.transpose(data, axes=(1, 0, 2))
    return list(mx.sym.SliceChannel(data, num_outputs=LENGTH, axis=axis, squeeze_axis=True))


def _unroll(step: Callable[..., Any], inputs: Sequence[Any], *states: Any) -> list[Any]:
    """Return the outputs of a cell with one state."""
    (state,) = states
    outputs = []
    for one in inputs:
        state = step(one, state)
        outputs.append(state)
    return outputs


def _unroll_lstm(layer: _Layer, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return all outputs and all memories."""
    state, memory = layer.begin(2)
    outputs, memories = [], []
    for one in inputs:
        state, memory = layer.lstm(one, state, memory)
        outputs.append(state)
        memories.append(memory)
    return outputs, memories


def lstm(mx: Any) -> Any:
    """Join the outputs along the batch, like example/rnn."""
    outputs, _ = _unroll_lstm(_Layer(mx, "a"), _steps(mx))
    return mx.sym.Concat(*outputs, dim=0)


def lstm_states(mx: Any) -> Any:
    """Output every step, and the last memory."""
    outputs, memories = _unroll_lstm(_Layer(mx, "a"), _steps(mx, axis=0))
    return mx.sym.Group([*outputs, memories[-1]])


def lstm_last(mx: Any) -> Any:
    """Output only the last state."""
    return _unroll_lstm(_Layer(mx, "a"), _steps(mx))[0][-1]


def lstm_memory_shown(mx: Any) -> Any:
    """Output the memory in the middle, which splits the layer in two."""
    outputs, memories = _unroll_lstm(_Layer(mx, "a"), _steps(mx))
    return mx.sym.Group([outputs[-1], memories[1]])


def lstm_gate_shown(mx: Any) -> Any:
    """Output an inner value of a cell, which splits the layer around it: one step is no layer."""
    layer, (state, memory) = _Layer(mx, "a"), _Layer(mx, "a").begin(2)
    for one in _steps(mx):
        state, memory = layer.lstm(one, state, memory)
    inside = state.get_internals()
    names = [name for name in inside.list_outputs() if "activation" in name]
    return mx.sym.Group([state, inside[names[-3]]])


def lstm_by_time(mx: Any) -> Any:
    """Go through all layers at each step, and join the outputs along the columns."""
    layers = [_Layer(mx, name) for name in "ab"]
    states = [tuple(layer.begin(2)) for layer in layers]
    outputs = []
    for value in _steps(mx):
        for position, layer in enumerate(layers):
            states[position] = layer.lstm(value, *states[position])
            value = states[position][0]
        outputs.append(value)
    return mx.sym.Concat(*outputs, dim=1)


def lstm_dropped(mx: Any) -> Any:
    """Put dropout with p = 0 on each layer's input and the last layer's output."""
    layers = [_Layer(mx, name) for name in "ab"]
    states = [tuple(layer.begin(2)) for layer in layers]
    outputs = []
    for value in _steps(mx):
        for position, layer in enumerate(layers):
            states[position] = layer.lstm(mx.sym.Dropout(value, p=0.0), *states[position])
            value = states[position][0]
        outputs.append(mx.sym.Dropout(value, p=0.0))
    return mx.sym.Concat(*outputs, dim=0)


def lstm_predictions(mx: Any) -> Any:
    """Apply the same layer to each output."""
    above = _Layer(mx, "above")
    outputs, _ = _unroll_lstm(_Layer(mx, "a"), _steps(mx))
    return mx.sym.Concat(*(above.dense(one, "fc", 1) for one in outputs), dim=0)


def gru(mx: Any) -> Any:
    """Stack the outputs."""
    layer = _Layer(mx, "a")
    return mx.sym.stack(*_unroll(layer.gru, _steps(mx), *layer.begin(1)), axis=1)


def gru_stepwise(mx: Any) -> Any:
    """Join the outputs."""
    layer = _Layer(mx, "a")
    outputs = _unroll(layer.gru_stepwise, _steps(mx), *layer.begin(1))
    return mx.sym.Concat(*outputs, dim=0)


def gru_reset_first(mx: Any) -> Any:
    """Join the outputs."""
    layer = _Layer(mx, "a")
    outputs = _unroll(layer.gru_reset_first, _steps(mx), *layer.begin(1))
    return mx.sym.Concat(*outputs, dim=0)


def gru_reset_first_blended(mx: Any) -> Any:
    """Output the last two steps."""
    layer = _Layer(mx, "a")
    outputs = _unroll(layer.gru_reset_first_blended, _steps(mx), *layer.begin(1))
    return mx.sym.Group(outputs[-2:])


def plain_both_ways(mx: Any) -> Any:
    """Join two directions step by step."""
    steps, forth, back = _steps(mx), _Layer(mx, "a"), _Layer(mx, "b")
    ours = _unroll(forth.plain, steps, *forth.begin(1))
    theirs = _unroll(back.plain, steps[::-1], *back.begin(1))[::-1]
    return mx.sym.Concat(
        *(mx.sym.Concat(*pair, dim=1) for pair in zip(ours, theirs, strict=True)), dim=0
    )


def plain_tied(mx: Any) -> Any:
    """Use one layer's parameters twice, in layers on top of each other."""
    below, layer = _Layer(mx, "a"), _Layer(mx, "b")
    inputs = _unroll(below.plain, _steps(mx), *below.begin(1))
    (state,) = layer.begin(1)
    for _ in range(2):
        inputs = _unroll(layer.plain, inputs, state)
    return mx.sym.Concat(*inputs, dim=0)


def plain_fed_back(mx: Any) -> Any:
    """Feed each output back as the next input."""
    layer, (value, *others) = _Layer(mx, "a"), _steps(mx)
    (state,) = layer.begin(1)
    for one in others:
        state = layer.plain(value, state)
        value = one + mx.sym.slice_axis(state, axis=1, begin=0, end=FEATURES)
    return layer.plain(value, state)


def plain_crossed(mx: Any) -> Any:
    """Two layers that need each other's output; only one of them can be rolled up."""
    first, second = _Layer(mx, "a"), _Layer(mx, "b")
    steps = _steps(mx)

    def feed(state: Any) -> Any:
        return mx.sym.slice_axis(state, axis=1, begin=0, end=FEATURES)

    early = second.plain(steps[0], *second.begin(1))
    ours = _unroll(first.plain, [feed(early), steps[1], steps[2]], *first.begin(1))
    theirs = _unroll(second.plain, [steps[1], feed(ours[-1])], early)
    return mx.sym.Concat(*ours, *theirs, dim=0)


def cells(mx: Any) -> Any:
    """Stack MXNet's cells, with dropout of p = 0 in between, time first."""
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.LSTMCell(HIDDEN, prefix="a_"))
    stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(HIDDEN, prefix="b_")))
    stack.add(mx.rnn.RNNCell(HIDDEN, activation="relu", prefix="c_"))
    outputs, states = stack.unroll(
        LENGTH,
        mx.sym.transpose(mx.sym.Variable("data"), axes=(1, 0, 2)),
        layout="TNC",
        merge_outputs=True,
    )
    return mx.sym.Group([outputs, states[1]])


def cells_both_ways(mx: Any) -> Any:
    """Unroll cells in both directions."""
    cell = mx.rnn.BidirectionalCell(
        mx.rnn.GRUCell(HIDDEN, prefix="l_"), mx.rnn.LSTMCell(HIDDEN, prefix="r_")
    )
    return cell.unroll(LENGTH, mx.sym.Variable("data"), merge_outputs=True)[0]


def cells_above_both_ways(mx: Any) -> Any:
    """Stack bidirectional layers, with a residual layer on top and activations in between."""
    stack = mx.rnn.SequentialRNNCell()
    for name in "ab":
        stack.add(
            mx.rnn.BidirectionalCell(
                mx.rnn.LSTMCell(HIDDEN, prefix=f"{name}_l_"),
                mx.rnn.GRUCell(HIDDEN, prefix=f"{name}_r_"),
            )
        )
    inputs, _ = stack.unroll(LENGTH, mx.sym.Variable("data"), merge_outputs=False)
    inputs = [mx.sym.Activation(one, act_type="tanh") for one in inputs]
    above = mx.rnn.ResidualCell(mx.rnn.LSTMCell(2 * HIDDEN, prefix="c_"))
    return mx.sym.Concat(*above.unroll(LENGTH, inputs, merge_outputs=False)[0], dim=0)


CASES: dict[str, Case] = {
    build.__name__: Case(build, layers)
    for build, layers in (
        (lstm, 1),
        (lstm_states, 1),
        (lstm_last, 1),
        (lstm_memory_shown, 2),
        (lstm_gate_shown, 1),
        (lstm_by_time, 2),
        (lstm_dropped, 2),
        (lstm_predictions, 1),
        (gru, 1),
        (gru_stepwise, 1),
        (gru_reset_first, 1),
        (gru_reset_first_blended, 1),
        (plain_both_ways, 2),
        (plain_tied, 3),
        (plain_fed_back, 0),
        (plain_crossed, 1),
        (cells, 3),
        (cells_both_ways, 2),
        (cells_above_both_ways, 5),
    )
}


def run_case(
    mx: Any, case_id: str, bind: Callable[..., Any] | None = None, grad_req: str = "write"
) -> dict[str, np.ndarray]:
    """Return outputs of both modes, and the gradients of all arguments.

    Args:
        mx: the engine.
        case_id: which graph.
        bind: binds (symbol, arguments, gradients, request); the engine's own way where None.
        grad_req: of all arguments; what is added to is one.
    """
    with mx.name.NameManager():
        symbol = CASES[case_id].build(mx)
    shapes, out_shapes, _ = symbol.infer_shape(**SHAPES)
    random = np.random.RandomState(3)

    def draw(shape: tuple[int, ...]) -> Any:
        return mx.nd.array(random.normal(scale=0.7, size=shape).astype("float32"))

    names = symbol.list_arguments()
    # By name, since engines and versions may order arguments differently.
    values = {name: draw(shape) for name, shape in sorted(zip(names, shapes, strict=True))}
    arguments = {name: values[name] for name in names}
    gradients = {name: mx.nd.ones(array.shape) for name, array in arguments.items()}
    if bind is None:
        executor = symbol.bind(mx.cpu(), arguments, gradients, grad_req)
    else:
        executor = bind(symbol, arguments, gradients, grad_req)
    inference = [out.asnumpy() for out in executor.forward(is_train=False)]
    training = [out.asnumpy() for out in executor.forward(is_train=True)]
    executor.backward([draw(shape) for shape in out_shapes])
    results = {f"gradient_{name}": array.asnumpy() for name, array in gradients.items()}
    for index, (quiet, loud) in enumerate(zip(inference, training, strict=True)):
        results[f"inference_{index}"] = quiet
        results[f"training_{index}"] = loud
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return what every case computes."""
    return {
        f"{case_id}/{key}": array
        for case_id in CASES
        for key, array in run_case(mx, case_id).items()
    }
