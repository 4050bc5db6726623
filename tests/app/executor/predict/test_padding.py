"""Examples shorter than their bucket: padded as declared, with lengths passed to the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.module import BindSpec, BucketShapes, InitSpec, InputDesc, ModuleKind, ModuleRecord
from app.link import calls
from app.link.protocols import IncomingCall
from app.link.signatures import Signature, Target

BATCH, FEATURES, HIDDEN, LENGTHS = 4, 3, 5, (4, 6, 9)


def largest(steps: int) -> mx.sym.Symbol:
    """Return a net without lengths: the largest value of each feature."""
    data = mx.sym.Variable("data")
    scaled = mx.sym.FullyConnected(mx.sym.max(data, axis=1), num_hidden=2, name="fc")
    return mx.sym.Group([scaled, mx.sym.identity(data, name="steps")])


def masked(steps: int) -> mx.sym.Symbol:
    """Return the sum of the masked steps and the last step, using SequenceMask and SequenceLast."""
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("lengths")
    time_first = mx.sym.tanh(mx.sym.swapaxes(data, dim1=0, dim2=1) + 1)
    options = {"sequence_length": lengths, "use_sequence_length": True}
    total = mx.sym.sum(mx.sym.SequenceMask(time_first, **options), axis=0)
    last = mx.sym.SequenceLast(time_first, **options)
    return mx.sym.FullyConnected(mx.sym.concat(total, last, dim=1), num_hidden=2, name="fc")


def recurrent(steps: int) -> mx.sym.Symbol:
    """Return a bidirectional GRU over each example's own length."""
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("lengths")
    out = mx.sym.RNN(
        mx.sym.swapaxes(data, dim1=0, dim2=1),
        mx.sym.Variable("rnn_parameters", init=mx.init.Uniform(0.5)),
        mx.sym.zeros((2, 0, HIDDEN)),
        sequence_length=lengths,
        use_sequence_length=True,
        state_size=HIDDEN,
        num_layers=1,
        bidirectional=True,
        mode="gru",
    )
    return mx.sym.swapaxes(out, dim1=0, dim2=1, name="states")


def shapes(steps: int, data: dict[str, Any], lengths: dict[str, Any] | None) -> BucketShapes:
    descs = [InputDesc(name="data", shape=(BATCH, steps, FEATURES), layout="NTC", **data)]
    if lengths is not None:
        descs.append(InputDesc(name="lengths", shape=(BATCH,), **lengths))
    return BucketShapes(data_shapes=tuple(descs))


def ready(
    driver: Any,
    network: Any,
    *,
    steps: tuple[int, ...] = LENGTHS,
    data: dict[str, Any] | None = None,
    lengths: dict[str, Any] | None = None,
) -> None:
    """Create the module ``net`` of a network, with buckets."""
    names = ("data",) if lengths is None else ("data", "lengths")
    record = ModuleRecord(
        name="net",
        kind=ModuleKind.BUCKETING,
        symbols={str(n): network(n).tojson() for n in steps},
        default_bucket_key=str(steps[-1]),
        data_names=names,
        label_names=(),
    )
    driver.ask(calls.CreateModule(record=record))
    bound = {str(n): shapes(n, data or {}, lengths) for n in steps}
    default = bound.pop(str(steps[-1]))
    spec = BindSpec(data_shapes=default.data_shapes, buckets=bound, for_training=False)
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))


def unpadded(driver: Any, network: Any, x: np.ndarray) -> list[np.ndarray]:
    """Return the engine's outputs for one example alone."""
    symbol = network(x.shape[1])
    values = {name: mx.nd.array(value) for name, value in driver.params().items()}
    inputs = {"data": mx.nd.array(x), "lengths": mx.nd.array([x.shape[1]])}
    arguments = {**values, **inputs}
    names = symbol.list_arguments()
    executor = symbol.bind(mx.cpu(), {name: arguments[name] for name in names}, grad_req="null")
    return [output.asnumpy() for output in executor.forward(is_train=False)]


def example(steps: int, rows: int = 1) -> np.ndarray:
    """Return examples with only negative values."""
    drawn = np.random.default_rng(steps).random((rows, steps, FEATURES), dtype=np.float32)
    found: np.ndarray = -1 - drawn
    return found


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 8, 9])
def test_the_padding_value_is_the_declared_one(driver, steps):
    ready(driver, largest, data={"pad_value": -1e30})
    x = example(steps)
    _, outputs = driver.ask(calls.Predict(module="net"), data=x)
    expected, _ = unpadded(driver, largest, x)
    np.testing.assert_allclose(outputs["fc_output"], expected, rtol=1e-6)
    np.testing.assert_array_equal(outputs["steps_output"], x)


def test_the_padding_value_need_not_fit_the_requests_dtype(driver):
    ready(driver, largest, data={"pad_value": -1})
    _, outputs = driver.ask(calls.Predict(module="net"), data=np.zeros((1, 3, FEATURES), np.uint8))
    expected, _ = unpadded(driver, largest, np.zeros((1, 3, FEATURES)))
    np.testing.assert_allclose(outputs["fc_output"], expected, rtol=1e-6)


@pytest.mark.parametrize("network", [masked, recurrent])
@pytest.mark.parametrize("steps", [1, 3, 4, 5, 8, 9])
def test_lengths_are_filled_in_and_results_match_unpadded_ones(driver, network, steps):
    ready(driver, network, lengths={"lengths_of": "data"})
    x = example(steps)
    _, outputs = driver.ask(calls.Predict(module="net"), data=x)
    (output,) = outputs.values()
    (expected,) = unpadded(driver, network, x)
    assert output.shape == expected.shape
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    _, again = driver.ask(calls.Predict(module="net"), data=x, lengths=[steps])
    (sent,) = again.values()
    np.testing.assert_array_equal(sent, output)


def test_given_lengths_are_used(driver):
    ready(driver, masked, lengths={"lengths_of": "data"})
    x = example(6)
    _, outputs = driver.ask(calls.Predict(module="net"), data=x, lengths=[2])
    (expected,) = unpadded(driver, masked, x[:, :2])
    np.testing.assert_allclose(outputs["fc_output"], expected, rtol=1e-6)


def test_batched_requests_keep_their_own_lengths(driver):
    ready(driver, masked, lengths={"lengths_of": "data"})
    _, params = calls.to_call(calls.Predict(module="net"))
    arrays = [example(5, rows) for rows in (1, 2, 1)]
    targets = {
        one.shape: Target(params, Signature.of({"data": (one.shape, one.dtype)})) for one in arrays
    }
    batch = [
        driver.host.prepare(
            IncomingCall(number, "predict", params, {"data": one}, target=targets[one.shape])
        )
        for number, one in enumerate([*arrays, *arrays])
    ]
    answers, facts = driver.host.predict(batch[:3])
    assert facts.rows == 4
    together = [answer.tensors["fc_output"].copy() for answer in answers]
    for one, output in zip(arrays, together, strict=True):
        _, alone = driver.ask(calls.Predict(module="net"), data=one)
        np.testing.assert_allclose(output, alone["fc_output"], rtol=1e-6)


def test_lengths_follow_the_first_axis_after_the_batch(driver):
    ready(driver, masked, steps=(4,), lengths={"lengths_of": "data"})
    x = example(4, rows=3)
    _, outputs = driver.ask(calls.Predict(module="net"), data=x)
    _, sent = driver.ask(calls.Predict(module="net"), data=x, lengths=[4, 4, 4])
    np.testing.assert_array_equal(outputs["fc_output"], sent["fc_output"])


def test_many_examples_in_pieces(driver):
    ready(driver, masked, lengths={"lengths_of": "data"})
    x = example(5, rows=150)
    _, outputs = driver.ask(calls.Predict(module="net"), data=x)
    _, sent = driver.ask(calls.Predict(module="net"), data=x, lengths=[5] * 150)
    np.testing.assert_allclose(outputs["fc_output"], sent["fc_output"], rtol=1e-6)


def test_without_data_there_are_no_lengths(driver):
    ready(driver, masked, lengths={"lengths_of": "data"})
    assert driver.refusal(calls.Predict(module="net"), lengths=[3]).field_name == "data"
    x = np.zeros((4, 4), np.float32)
    assert driver.refusal(calls.Predict(module="net"), data=x).field_name == "data"


@pytest.mark.parametrize(
    ("data", "lengths", "field"),
    [
        ({"dtype": "int32", "pad_value": 0.5}, {}, "data_shapes[0].pad_value"),
        ({"dtype": "uint8", "pad_value": -1}, {}, "data_shapes[0].pad_value"),
        ({}, {"lengths_of": "dat"}, "data_shapes[1].lengths_of"),
        ({}, {"lengths_of": "lengths"}, "data_shapes[1].lengths_of"),
        ({"lengths_of": "lengths"}, {}, "data_shapes[0].shape"),
    ],
)
def test_invalid_padding_is_refused_when_binding(driver, data, lengths, field):
    record = ModuleRecord(
        name="net",
        symbols={"null": masked(4).tojson()},
        data_names=("data", "lengths"),
        label_names=(),
    )
    driver.ask(calls.CreateModule(record=record))
    spec = BindSpec(data_shapes=shapes(4, data, lengths).data_shapes)
    assert driver.refusal(calls.Bind(module="net", spec=spec)).field_name == field
    assert driver.describe()["stage"] == "created"
