"""Predictions: sizes, padding, buckets. Expected values: NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.domain.module import (
    SINGLE,
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
)
from app.link import calls

FEATURES = 6


def expected_mlp(params: dict[str, np.ndarray], data: np.ndarray) -> np.ndarray:
    hidden = np.tanh(data @ params["fc1_weight"].T + params["fc1_bias"])
    top = hidden @ params["fc2_weight"].T + params["fc2_bias"]
    exp = np.exp(top - top.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 33, 64, 65, 200])
def test_any_number_of_examples_is_accepted(driver, rows):
    driver.ready()
    data = np.random.default_rng(rows).normal(size=(rows, FEATURES)).astype(np.float32)
    _, outputs = driver.ask(calls.Predict(module="net"), data=data)
    assert outputs["softmax_output"].shape == (rows, 3)
    np.testing.assert_allclose(
        outputs["softmax_output"], expected_mlp(driver.params(), data), rtol=2e-5, atol=1e-6
    )


def test_rows_do_not_depend_on_the_rest_of_the_batch(driver):
    driver.ready()
    data = np.random.default_rng(0).normal(size=(5, FEATURES)).astype(np.float32)
    _, clean = driver.ask(calls.Predict(module="net"), data=data)
    data[2] = np.nan
    _, outputs = driver.ask(calls.Predict(module="net"), data=data)
    assert np.isnan(outputs["softmax_output"][2]).all()
    rest = [0, 1, 3, 4]
    np.testing.assert_array_equal(outputs["softmax_output"][rest], clean["softmax_output"][rest])
    _, after = driver.ask(calls.Predict(module="net"), data=np.delete(data, 2, axis=0)[:3])
    assert np.isfinite(after["softmax_output"]).all()


def test_predictions_use_the_current_parameters(driver, toy_data):
    driver.ready()
    data = toy_data["data"][:3]
    _, before = driver.ask(calls.Predict(module="net"), data=data)
    batch = {name: array[:8] for name, array in toy_data.items()}
    driver.ask(calls.Forward(module="net", backward=True), **batch)
    driver.ask(calls.Update(module="net"))
    _, after = driver.ask(calls.Predict(module="net"), data=data)
    assert not np.array_equal(before["softmax_output"], after["softmax_output"])
    expected = expected_mlp(driver.params(), data)
    np.testing.assert_allclose(after["softmax_output"], expected, rtol=2e-5)
    driver.bind(batch=4)
    _, again = driver.ask(calls.Predict(module="net"), data=data)
    np.testing.assert_allclose(again["softmax_output"], expected, rtol=2e-5)


def test_inference_uses_moving_averages_without_changing_them(driver, make_network):
    driver.create(make_network(dropout=0.5, batch_norm=True))
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    before = driver.params()
    data = np.random.default_rng(0).normal(3, 2, size=(9, FEATURES)).astype(np.float32)
    _, one = driver.ask(calls.Predict(module="net"), data=data)
    _, two = driver.ask(calls.Predict(module="net"), data=data)
    np.testing.assert_array_equal(one["softmax_output"], two["softmax_output"])
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    ("tensors", "field"),
    [
        ({}, "data"),
        ({"data": np.zeros((2, 7), dtype=np.float32)}, "data"),
        ({"data": np.zeros((1, 1, 6), dtype=np.float32)}, "data"),
        ({"data": np.zeros(5, dtype=np.float32)}, "data"),
        ({"data": np.zeros((0, 6), dtype=np.float32)}, "data"),
        ({"data": np.zeros((2, 6), dtype=np.float32), "dat": np.zeros(1)}, "dat"),
        (
            {"data": np.zeros((2, 6), dtype=np.float32), "softmax_label": np.zeros(2)},
            "softmax_label",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(driver, tensors, field):
    driver.ready()
    refusal = driver.refusal(calls.Predict(module="net"), **tensors)
    assert (refusal.code, refusal.field_name) == ("invalid", field)
    driver.ask(calls.Predict(module="net"), data=np.zeros((2, 6), dtype=np.uint8))


def test_an_unknown_bucket_is_refused(driver):
    driver.ready()
    call = calls.Predict(module="net", bucket="7")
    data = np.zeros((2, 6), dtype=np.float32)
    refusal = driver.refusal(call, data=data)
    assert refusal.field_name == "bucket"
    assert "the module has no buckets" in str(refusal)


def test_fractions_are_refused_for_integer_inputs(driver):
    net = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=5, output_dim=2, name="embed")
    record = ModuleRecord(name="net", symbols={SINGLE: net.tojson()}, label_names=())
    driver.ask(calls.CreateModule(record=record))
    shapes = (InputDesc(name="data", shape=(4, 3), dtype="int32"),)
    driver.ask(calls.Bind(module="net", spec=BindSpec(data_shapes=shapes)))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    table = driver.params()["embed_weight"]
    rows = np.array([[0, 4, 2], [1, 1, 3]])
    _, outputs = driver.ask(calls.Predict(module="net"), data=rows)
    np.testing.assert_array_equal(outputs["embed_output"], table[rows])
    refusal = driver.refusal(calls.Predict(module="net"), data=rows + 0.5)
    assert refusal.field_name == "data"


def test_outputs_without_a_row_per_example_are_computed_without_padding(driver):
    data = mx.sym.Variable("data")
    net = mx.sym.Group(
        [mx.sym.sum(data, name="total"), mx.sym.Reshape(data, shape=(-1,), name="flat")]
    )
    record = ModuleRecord(name="net", symbols={SINGLE: net.tojson()}, label_names=())
    driver.ask(calls.CreateModule(record=record))
    shapes = (InputDesc(name="data", shape=(4, 3)),)
    spec = BindSpec(data_shapes=shapes, for_training=False)
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.SetParams(module="net"))
    assert driver.describe()["predict"] == {"null": {"has_rows": False, "sizes": []}}
    for rows in (1, 5, 3):
        sent = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        _, outputs = driver.ask(calls.Predict(module="net"), data=sent)
        assert outputs["total_output"].tolist() == [sent.sum()]
        assert outputs["flat_output"].tolist() == sent.ravel().tolist()


def test_a_symbol_with_a_fixed_batch_size_runs_in_pieces(driver):
    data = mx.sym.Variable("data")
    net = mx.sym.Reshape(mx.sym.Reshape(data, shape=(4, 3, 1)), shape=(4, 3), name="fixed")
    record = ModuleRecord(name="net", symbols={SINGLE: net.tojson()}, label_names=())
    driver.ask(calls.CreateModule(record=record))
    spec = BindSpec(data_shapes=(InputDesc(name="data", shape=(4, 3)),), for_training=False)
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.SetParams(module="net"))
    assert driver.describe()["predict"]["null"]["sizes"] == [4]
    for rows in (1, 4, 10):
        sent = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        _, outputs = driver.ask(calls.Predict(module="net"), data=sent)
        np.testing.assert_array_equal(outputs["fixed_output"], sent)


def test_the_batch_may_be_another_axis(driver):
    data = mx.sym.Variable("data")
    net = mx.sym.Activation(data, act_type="relu", name="relu")
    net._set_attr(__layout__="TNC")
    record = ModuleRecord(name="net", symbols={SINGLE: net.tojson()}, label_names=())
    driver.ask(calls.CreateModule(record=record))
    shapes = (InputDesc(name="data", shape=(5, 4, 2), layout="TNC"),)
    driver.ask(calls.Bind(module="net", spec=BindSpec(data_shapes=shapes, for_training=False)))
    driver.ask(calls.SetParams(module="net"))
    for rows in (1, 3, 100):
        sent = np.random.default_rng(0).normal(size=(5, rows, 2)).astype(np.float32)
        _, outputs = driver.ask(calls.Predict(module="net"), data=sent)
        np.testing.assert_array_equal(outputs["relu_output"], np.maximum(sent, 0))


# -- buckets -----------------------------------------------------------------------------------


def expected_sequences(params, data, lengths) -> np.ndarray:
    means = np.stack([row[:n].mean(axis=0) for row, n in zip(data, lengths, strict=True)])
    top = means @ params["fc_weight"].T + params["fc_bias"]
    exp = np.exp(top - top.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


@pytest.fixture
def bucketed(driver):
    driver.create_buckets((3, 6, 9), default=6)
    driver.bind_buckets(6, (3, 9))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=2, initializer="normal")))
    return driver


@pytest.mark.parametrize(
    ("length", "bucket"), [(1, "3"), (3, "3"), (4, "6"), (6, "6"), (7, "9"), (9, "9")]
)
def test_a_ragged_input_goes_to_the_smallest_bucket_that_holds_it(bucketed, length, bucket):
    data = np.random.default_rng(length).normal(size=(5, length, FEATURES)).astype(np.float32)
    lengths = np.full(5, length)
    result, outputs = bucketed.ask(calls.Predict(module="net"), data=data, lengths=lengths)
    assert result == {"bucket": bucket}
    np.testing.assert_allclose(
        outputs["softmax_output"],
        expected_sequences(bucketed.params(), data, lengths),
        rtol=2e-5,
    )


def test_a_bucket_can_be_chosen_by_name(bucketed):
    data = np.random.default_rng(0).normal(size=(2, 3, FEATURES)).astype(np.float32)
    call = calls.Predict(module="net", bucket="9")
    result, outputs = bucketed.ask(call, data=data, lengths=np.array([3, 3]))
    assert result == {"bucket": "9"}
    expected = expected_sequences(bucketed.params(), data, [3, 3])
    np.testing.assert_allclose(outputs["softmax_output"], expected, rtol=2e-5)


def test_an_input_that_fits_no_bucket_is_refused(bucketed):
    data = np.zeros((1, 10, FEATURES), dtype=np.float32)
    refusal = bucketed.refusal(calls.Predict(module="net"), data=data, lengths=np.array([10]))
    assert (refusal.code, refusal.field_name) == ("invalid", "data")
    assert "shape (1, 10, 6)" in refusal.message
    assert "bucket 3: (n, 3, 6), bucket 6: (n, 6, 6), bucket 9: (n, 9, 6)" in refusal.message


def test_an_unknown_input_beside_one_that_fits_no_bucket_is_not_blamed(bucketed):
    data = np.zeros((1, 10, FEATURES), dtype=np.float32)
    call = calls.Predict(module="net")
    assert bucketed.refusal(call, stranger=data, data=data).field_name == "data"


def test_a_tensor_of_another_rank_is_refused(bucketed):
    data = np.zeros(FEATURES, dtype=np.float32)
    refusal = bucketed.refusal(calls.Predict(module="net"), data=data, lengths=np.array([1]))
    assert refusal.field_name == "data"


def test_buckets_are_bound_on_demand_and_once(driver):
    driver.create_buckets((3, 6, 9), default=6)
    driver.bind_buckets(6, ())
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=2)))
    call = calls.BindBucket(module="net", key="9", shapes=driver.sequence_shapes(9, 4))
    driver.ask(call)
    assert driver.refusal(call).code == "conflict"
    assert list(driver.describe()["buckets"]) == ["6", "9"]
    data = np.zeros((1, 8, FEATURES), dtype=np.float32)
    result, _ = driver.ask(calls.Predict(module="net"), data=data, lengths=np.array([8]))
    assert result == {"bucket": "9"}


def test_outputs_are_cut_to_the_length_sent(driver):
    def network(length: int) -> str:
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, flatten=False, name="fc")
        return mx.sym.Activation(net, act_type="relu", name="steps").tojson()

    record = ModuleRecord(
        name="net",
        kind=ModuleKind.BUCKETING,
        symbols={str(n): network(n) for n in (4, 8)},
        default_bucket_key="8",
        label_names=(),
    )
    driver.ask(calls.CreateModule(record=record))

    def shapes(length: int) -> tuple[InputDesc, ...]:
        return (InputDesc(name="data", shape=(2, length, 3), layout="NTC"),)

    spec = BindSpec(
        data_shapes=shapes(8),
        for_training=False,
        buckets={"4": BucketShapes(data_shapes=shapes(4))},
    )
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=4)))
    params = driver.params()
    for length in (2, 4, 5, 8):
        data = np.random.default_rng(length).normal(size=(3, length, 3)).astype(np.float32)
        _, outputs = driver.ask(calls.Predict(module="net"), data=data)
        expected = np.maximum(data @ params["fc_weight"].T + params["fc_bias"], 0)
        assert outputs["steps_output"].shape == (3, length, 2)
        np.testing.assert_allclose(outputs["steps_output"], expected, rtol=1e-5, atol=1e-6)


def took(predictor, seconds):
    """Pretend that runs of some sizes took this long."""
    predictor._seconds, predictor._quick_rows = {}, None
    for size, taken in seconds.items():
        predictor._note_seconds(size, taken)


def test_runs_above_the_bound_size_grow_while_they_stay_short(driver, monkeypatch):
    driver.ready()
    predictor = driver.host._get("net").inference.predictor(SINGLE)
    assert predictor.quick_rows == predictor.bound_size < predictor.most_rows
    many = np.ones((500, FEATURES), np.float32)
    for _ in range(3):
        outputs = driver.ask(calls.Predict(module="net"), data=many)[1]
    found = outputs["softmax_output"]
    np.testing.assert_allclose(found, np.repeat(found[:1], 500, 0), rtol=1e-5)
    took(predictor, dict.fromkeys(predictor.sizes, 0.001))
    assert predictor.quick_rows == predictor.most_rows
    took(predictor, {predictor.bound_size: 0.5})
    assert predictor.quick_rows == predictor.bound_size
    larger = predictor.sizes[predictor.sizes.index(predictor.bound_size) + 1]
    took(predictor, {predictor.bound_size: 0.005})
    assert predictor.quick_rows >= larger
