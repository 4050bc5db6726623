"""The fused RNN operator: sequence lengths, dropout between layers, parameter layout, errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError, TypeInferenceError
from core.ops.rnn_layout import split_parameters
from oracle.apply import apply, make

MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 2
LENGTHS = (5, 1, 3)

PROJECTED = {"state_size": 3, "projection_size": 2}
CLIPPED = {"lstm_state_clip_min": -0.3, "lstm_state_clip_max": 0.2}
KINDS = [
    *((mode, {}) for mode in MODES),
    ("lstm", PROJECTED),
    ("lstm", CLIPPED),
    ("lstm", {**PROJECTED, **CLIPPED}),
]


def attributes(mode: str, **more: object) -> dict[str, object]:
    base = {"mode": mode, "state_size": HIDDEN, "num_layers": 2, "bidirectional": True}
    return {**base, "state_outputs": True, **more}


def arrays(attrs: dict[str, object]) -> list[np.ndarray]:
    """Return random float64 inputs, except for the lengths."""
    random = np.random.RandomState(1)
    operator = make("RNN", attrs)
    count = len(operator.input_names())
    shapes, _ = operator.infer_shape(
        [(STEPS, BATCH, INPUTS), *[None] * (count - 1)], [None] * len(operator.output_names())
    )
    states = [name for name in operator.input_names() if name != "sequence_length"]
    return [random.normal(size=shape) for shape in shapes[: len(states)]]


def heads_for(attrs: dict[str, object], inputs: list[np.ndarray]) -> list[np.ndarray]:
    random = np.random.RandomState(2)
    operator = make("RNN", attrs)
    _, shapes = operator.infer_shape(
        [x.shape for x in inputs], [None] * len(operator.output_names())
    )
    return [random.normal(size=shape) for shape in shapes[: operator.visible_outputs()]]


@pytest.mark.parametrize(("mode", "more"), KINDS)
def test_sequences_in_a_batch_do_not_affect_each_other(mode: str, more: dict[str, object]) -> None:
    attrs = attributes(mode, **more)
    inputs = arrays(attrs)
    ragged = {**attrs, "use_sequence_length": True}
    lengths = np.array(LENGTHS, dtype="float64")
    heads = heads_for(ragged, [*inputs, lengths])
    got = apply("RNN", ragged, [*inputs, lengths], heads)
    parameter_grad = np.zeros_like(inputs[1])
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        cut = [inputs[0][:length, one], inputs[1], *(x[:, one] for x in inputs[2:])]
        alone = apply("RNN", attrs, cut, [heads[0][:length, one], *(h[:, one] for h in heads[1:])])
        np.testing.assert_allclose(got.outputs[0][:length, one], alone.outputs[0], atol=1e-12)
        np.testing.assert_array_equal(got.outputs[0][length:, one], 0)
        for ours, theirs in zip(got.outputs[1 : len(heads)], alone.outputs[1:], strict=False):
            np.testing.assert_allclose(ours[:, one], theirs, atol=1e-12)
        np.testing.assert_allclose(got.grads[0][:length, one], alone.grads[0], atol=1e-12)
        np.testing.assert_array_equal(got.grads[0][length:, one], 0)
        for ours, theirs in zip(got.grads[2:-1], alone.grads[2:], strict=True):
            np.testing.assert_allclose(ours[:, one], theirs, atol=1e-12)
        parameter_grad += alone.grads[1]
    np.testing.assert_allclose(got.grads[1], parameter_grad, atol=1e-12)
    assert got.grads[-1] is None


@pytest.mark.parametrize(("mode", "more"), KINDS)
def test_gradient_with_dropout_is_the_derivative(mode: str, more: dict[str, object]) -> None:
    attrs = attributes(mode, p=0.4, num_layers=3, **more)
    inputs = arrays(attrs)
    heads = heads_for(attrs, inputs)
    random = np.random.RandomState(3)
    directions = [random.normal(size=x.shape) for x in inputs]

    def value(step: float) -> float:
        moved = [x + step * d for x, d in zip(inputs, directions, strict=True)]
        outputs = apply("RNN", attrs, moved).outputs
        return sum(float(np.sum(y * h)) for y, h in zip(outputs, heads, strict=False))

    numeric = (value(1e-6) - value(-1e-6)) / 2e-6
    grads = apply("RNN", attrs, inputs, heads).grads
    analytic = sum(float(np.sum(g * d)) for g, d in zip(grads, directions, strict=True))
    assert analytic == pytest.approx(numeric, rel=1e-5)


def test_dropout_applies_between_layers_in_training_only() -> None:
    inputs = arrays(attributes("gru"))

    def output(p: float, layers: int, train: bool) -> np.ndarray:
        attrs = attributes("gru", p=p, num_layers=layers)
        return apply("RNN", attrs, arrays(attrs), train=train).outputs[0]

    assert (output(0.5, 2, True) != output(0.0, 2, True)).any()
    np.testing.assert_array_equal(output(0.5, 2, False), output(0.0, 2, False))
    np.testing.assert_array_equal(output(0.5, 1, True), output(0.0, 1, True))
    assert len(inputs) == 3


def test_dropping_everything_leaves_the_second_layer_its_biases() -> None:
    attrs = attributes("rnn_tanh", p=1.0, bidirectional=False)
    data, parameters, state = arrays(attrs)
    got = apply("RNN", attrs, [data, parameters, state]).outputs[0]
    _, (second,) = split_parameters(parameters, 2, 1, INPUTS, HIDDEN, 1)
    first_step = np.tanh(second.i2h_bias + second.h2h_bias + state[1] @ second.h2h_weight.T)
    np.testing.assert_allclose(got[0], first_step, atol=1e-12)


def infer(data, *others, **attrs):
    operator = make("RNN", {"mode": "lstm", "state_size": 3, "num_layers": 2, **attrs})
    count = len(operator.input_names())
    inputs = [data, *others, *[None] * (count - 1 - len(others))]
    return operator.infer_shape(inputs, [None] * len(operator.output_names()))


def test_shapes_are_inferred_from_data() -> None:
    inputs, outputs = infer((5, 2, 4), state_outputs=True, use_sequence_length=True)
    assert inputs == [(5, 2, 4), (204,), (2, 2, 3), (2, 2, 3), (2,)]
    assert outputs[:3] == [(5, 2, 3), (2, 2, 3), (2, 2, 3)]
    assert infer((0, 0, 4))[0] == [(0, 0, 4), (204,), (2, 0, 3), (2, 0, 3)]


def test_input_and_output_names() -> None:
    operator = make("RNN", {"mode": "gru", "state_size": 3, "num_layers": 1, "state_outputs": True})
    assert operator.input_names() == ("data", "parameters", "state")
    assert operator.output_names()[: operator.visible_outputs()] == ("output", "state_output")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((5, 2),), r"data has shape \(5, 2\); expected \(steps, batch, inputs\)"),
        (((5, 2, 4), (10,)), r"parameters has shape \(10,\), expected \(204,\)"),
        (((5, 2, 4), None, (1, 2, 3)), r"state has shape \(1, 2, 3\), expected \(2, 2, 3\)"),
        (((5, 2, 4), None, None, (2, 1, 3)), r"state_cell has shape \(2, 1, 3\)"),
    ],
)
def test_contradicting_shapes_are_refused(shapes, message) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(*shapes)


def test_lengths_may_have_a_dtype_of_their_own() -> None:
    single, whole = np.dtype("float32"), np.dtype("int32")
    operator = make("RNN", attributes("gru", use_sequence_length=True))
    assert operator.infer_type([single, None, None, whole], [None] * 3)[0][-1] == whole
    assert operator.infer_type([single, None, None, None], [None] * 3)[0][-1] == single
    with pytest.raises(TypeInferenceError):
        operator.infer_type([single, whole, None, None], [None] * 3)


def test_inferred_shapes_with_projection() -> None:
    inputs, outputs = infer((5, 2, 4), state_outputs=True, projection_size=2)
    assert inputs == [(5, 2, 4), (180,), (2, 2, 2), (2, 2, 3)]
    assert outputs[:3] == [(5, 2, 2), (2, 2, 2), (2, 2, 3)]
    both, shown = infer((5, 2, 4), bidirectional=True, projection_size=2)
    assert (both[2:], shown[0]) == ([(4, 2, 2), (4, 2, 3)], (5, 2, 4))


def test_memory_is_clipped_after_every_step() -> None:
    attrs = attributes("lstm", num_layers=1, bidirectional=False)
    data, parameters, state, memory = arrays(attrs)
    ((cell,),) = split_parameters(parameters, 1, 1, INPUTS, HIDDEN, 4)
    got = apply("RNN", {**attrs, **CLIPPED}, [data, parameters, state, memory]).outputs
    hidden, memory = state[0], memory[0]
    for step, x in enumerate(data):
        gates = x @ cell.i2h_weight.T + hidden @ cell.h2h_weight.T + cell.i2h_bias + cell.h2h_bias
        write, forget, candidate, show = np.split(gates, 4, axis=1)
        memory = sigmoid(forget) * memory + sigmoid(write) * np.tanh(candidate)
        memory = memory.clip(-0.3, 0.2)
        hidden = sigmoid(show) * np.tanh(memory)
        np.testing.assert_allclose(got[0][step], hidden, atol=1e-12)
    np.testing.assert_allclose(got[2][0], memory, atol=1e-12)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("stops_nan", [False, True])
def test_nan_in_a_clipped_memory(stops_nan: bool) -> None:
    attrs = attributes("lstm", lstm_state_clip_nan=stops_nan, num_layers=1, **CLIPPED)
    inputs = arrays(attrs)
    inputs[3][0, 0, 1] = np.nan
    outputs = apply("RNN", attrs, inputs).outputs[:3]
    assert all(np.isfinite(output).all() for output in outputs) == stops_nan


@pytest.mark.parametrize(
    ("mode", "attrs", "message"),
    [
        ("gru", {"projection_size": 1}, "projection_size is 1 and mode 'gru'; only mode 'lstm'"),
        ("rnn_relu", CLIPPED, "lstm_state_clip_min is -0.3 and mode 'rnn_relu'"),
        ("lstm", {"projection_size": 3}, "projection_size is 3; expected at most state_size, 2"),
        ("lstm", {"lstm_state_clip_min": 0}, "clip_max None; set both or neither"),
        (
            "lstm",
            {"lstm_state_clip_min": 1, "lstm_state_clip_max": 0},
            "is 1.0; expected at most lstm_state_clip_max, 0.0",
        ),
    ],
)
def test_unsupported_projections_and_clips_are_refused(
    mode: str, attrs: dict[str, object], message: str
) -> None:
    with pytest.raises(AttributeValueError, match=f"RNN 'node': .*{message}"):
        make("RNN", attributes(mode, **attrs))
