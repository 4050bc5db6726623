"""The fused RNN: sequence lengths, dropout between layers, parameter layout, errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError, TypeInferenceError
from core.ops.rnn_layout import split_parameters
from oracle.apply import apply, make

MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 4, 2
LENGTHS = (5, 1, 3)


def attributes(mode: str, **more: object) -> dict[str, object]:
    base = {"mode": mode, "state_size": HIDDEN, "num_layers": 2, "bidirectional": True}
    return {**base, "state_outputs": True, **more}


def arrays(attrs: dict[str, object]) -> list[np.ndarray]:
    """Return random inputs but for the lengths, in float64."""
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


@pytest.mark.parametrize("mode", MODES)
def test_every_sequence_runs_as_if_it_were_alone(mode: str) -> None:
    attrs = attributes(mode)
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


@pytest.mark.parametrize("mode", MODES)
def test_gradient_with_dropout_is_the_derivative(mode: str) -> None:
    attrs = attributes(mode, p=0.4, num_layers=3)
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


def test_dropout_is_between_layers_and_in_training_only() -> None:
    inputs = arrays(attributes("gru"))

    def output(p: float, layers: int, train: bool) -> np.ndarray:
        attrs = attributes("gru", p=p, num_layers=layers)
        return apply("RNN", attrs, arrays(attrs), train=train).outputs[0]

    assert (output(0.5, 2, True) != output(0.0, 2, True)).any()
    np.testing.assert_array_equal(output(0.5, 2, False), output(0.0, 2, False))
    np.testing.assert_array_equal(output(0.5, 1, True), output(0.0, 1, True))
    assert len(inputs) == 3


def test_all_dropped_leaves_the_second_layer_its_biases() -> None:
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


def test_shapes_follow_from_data() -> None:
    inputs, outputs = infer((5, 2, 4), state_outputs=True, use_sequence_length=True)
    assert inputs == [(5, 2, 4), (204,), (2, 2, 3), (2, 2, 3), (2,)]
    assert outputs[:3] == [(5, 2, 3), (2, 2, 3), (2, 2, 3)]
    assert infer((0, 0, 4))[0] == [(0, 0, 4), (204,), (2, 0, 3), (2, 0, 3)]


def test_names() -> None:
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
def test_contradicting_shapes(shapes, message) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(*shapes)


def test_lengths_may_have_a_dtype_of_their_own() -> None:
    single, whole = np.dtype("float32"), np.dtype("int32")
    operator = make("RNN", attributes("gru", use_sequence_length=True))
    assert operator.infer_type([single, None, None, whole], [None] * 3)[0][-1] == whole
    assert operator.infer_type([single, None, None, None], [None] * 3)[0][-1] == single
    with pytest.raises(TypeInferenceError):
        operator.infer_type([single, whole, None, None], [None] * 3)


@pytest.mark.parametrize("name", ["projection_size", "lstm_state_clip_min", "lstm_state_clip_max"])
def test_what_needs_cudnn_in_mxnet_is_refused(name: str) -> None:
    assert make("RNN", attributes("lstm", **{name: None}))
    with pytest.raises(AttributeValueError, match=f"RNN 'node': {name} is 1"):
        make("RNN", attributes("lstm", **{name: 1}))
