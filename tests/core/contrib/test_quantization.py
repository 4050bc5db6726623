"""Networks quantized to int8, against what MXNet 1.9.1 makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core.contrib import quantization
from core.contrib.quantization.calibration import HistogramCollector
from core.errors import GraphError
from core.gluon.hybrid_block import compiled_graph
from oracle import golden_file
from oracle.topics import quantization as topic
from oracle.topics.quantization import CASES

_RANGE = ("min_calib_range", "max_calib_range")


def _split(text: str) -> tuple[list[Any], list[tuple[str, float]]]:
    """Return the nodes without their calibrated ranges, and the ranges."""
    nodes, ranges = json.loads(text)["nodes"], []
    for node in nodes:
        attrs = node.get("attrs", {})
        ranges += [
            (f"{node['name']} {key}", float(attrs.pop(key))) for key in _RANGE if key in attrs
        ]
    return nodes, ranges


@pytest.mark.parametrize("name", sorted(CASES))
def test_quantized_networks_match_mxnets(name: str) -> None:
    text, arrays = topic.run_case(mx, name)
    file = golden_file.GOLDEN / "quantization" / f"{name}.json"
    nodes, ranges = _split(text)
    expected_nodes, expected_ranges = _split(file.read_text(encoding="utf-8"))
    assert nodes == expected_nodes
    assert [key for key, _ in ranges] == [key for key, _ in expected_ranges]
    # Summing in another order can move a value to the next bin, and with it the threshold.
    tolerance = 2e-2 if "entropy" in name else 2e-6
    got, expected = (np.array([end for _, end in ends]) for ends in (ranges, expected_ranges))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    golden = golden_file.topic("quantization")
    assert set(arrays) == {
        key.removeprefix(f"{name}/") for key in golden if key.startswith(f"{name}/")
    }
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, golden[f"{name}/{key}"])


@pytest.mark.parametrize("name", topic.NET_CASES)
def test_quantized_blocks_are_as_accurate_as_mxnets(name: str) -> None:
    golden = golden_file.topic("quantization")
    whole, expected = golden[f"net {name}/float"], golden[f"net {name}/bytes"]
    net, made = topic.run_net(mx, name)
    np.testing.assert_allclose(net, whole, rtol=1e-5)
    # Convolution, batch norm and ReLU each get a threshold here; in MXNet they are one operator.
    factor = 5 if name == "entropy" else 2
    assert 0 < np.abs(made - whole).max() < factor * np.abs(expected - whole).max()


def _model() -> tuple[Any, dict[str, Any], dict[str, Any], Any]:
    """Return a trained three-class classifier and its data."""
    random = np.random.RandomState(0)
    labels = random.randint(0, 3, 240)
    centers = np.array([[2, 0, 1, 0], [0, 2, 0, 1], [-1, -1, 2, 2]], "float32")
    points = (centers[labels] + random.normal(size=(240, 4)) * 0.4).astype("float32")
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=16, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="relu1")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")
    iterator = mx.io.NDArrayIter(points, labels.astype("float32"), batch_size=24)
    mx.random.seed(1)
    module = mx.mod.Module(net)
    module.fit(iterator, num_epoch=4, optimizer_params={"learning_rate": 0.5})
    return net, *module.get_params(), iterator


def _accuracy(symbol: Any, arguments: Any, auxiliary: Any, data: Any) -> float:
    module = mx.mod.Module(symbol)
    module.bind(data.provide_data, data.provide_label, for_training=False)
    module.set_params(arguments, auxiliary)
    return float(dict(module.score(data, "acc"))["accuracy"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "auto"])
@pytest.mark.parametrize("mode", ["none", "naive", "entropy"])
def test_a_classifier_keeps_its_accuracy(mode: str, dtype: str) -> None:
    symbol, arguments, auxiliary, data = _model()
    before = _accuracy(symbol, arguments, auxiliary, data)
    assert before > 0.95
    made = quantization.quantize_model(
        symbol,
        arguments,
        auxiliary,
        calib_mode=mode,
        calib_data=data,
        num_calib_examples=72,
        quantized_dtype=dtype,
    )
    # uint8 cannot hold the negative values of this data.
    allowed = 0.4 if dtype == "uint8" else 0.02
    assert _accuracy(*made, data) > before - allowed
    assert all(
        made[1][name].dtype == np.int8 for name in ("fc1_weight_quantize", "fc2_bias_quantize")
    )


def test_calibrating_in_two_steps_gives_the_same() -> None:
    symbol, arguments, auxiliary, data = _model()
    options: dict[str, Any] = {"calib_mode": "naive", "quantized_dtype": "auto"}
    expected, _, _ = quantization.quantize_model(
        symbol, arguments, auxiliary, calib_data=data, quantize_mode="full", **options
    )
    made, *_, collector = quantization.quantize_graph(symbol, arguments, auxiliary, **options)
    executor = symbol.simple_bind(mx.cpu(), "null", data=(24, 4))
    executor.copy_params_from(arguments, auxiliary)
    executor.set_monitor_callback(collector.collect, monitor_all=True)
    data.reset()
    for batch in data:
        executor.forward(data=batch.data[0])
    made, parameters, _ = quantization.calib_graph(made, arguments, auxiliary, collector, **options)
    assert made.tojson() == expected.tojson()
    assert set(parameters) == set(made.list_arguments()) - {"data", "softmax_label"}


class _Fixed:
    """A collector that already knows the ranges."""

    def __init__(self) -> None:
        self.min_max_dict = {"data": (-2.0, 2.0)}

    def collect(self, name: str, array: Any) -> None:
        """Look at nothing."""


def test_a_custom_collector_gives_the_ranges() -> None:
    symbol, arguments, auxiliary, _ = _model()
    made, *_, collector = quantization.quantize_graph(
        symbol, arguments, auxiliary, calib_mode="customize", LayerOutputCollector=_Fixed()
    )
    made, _, _ = quantization.calib_graph(made, arguments, auxiliary, collector, "customize")
    assert made.attr_dict()["data_quantize"]["max_calib_range"] == "2.000000"


def test_a_histogram_widens_with_its_values() -> None:
    collector = HistogramCollector({"x"}, num_bins=5)
    collector.observe("x", np.array([-1.0, 1.0, 0.1]))
    collector.observe("x", np.array([0.2, -0.9]))
    collector.observe("x", np.array([2.0]))
    counts, edges, low, high, reach = collector.hist_dict["x"]
    assert (counts.sum(), low, high) == (6, -1.0, 2.0)
    assert len(edges) == len(counts) + 1
    assert reach >= 2.0
    assert edges[-1] == pytest.approx(reach)


class _Pair(mx.gluon.nn.HybridBlock):
    """A block with two inputs."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.left, self.right = (mx.gluon.nn.Dense(3, in_units=2) for _ in range(2))

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return self.left(x) + self.right(y)


@pytest.mark.parametrize("labels", [0, 1])
def test_a_block_with_two_inputs_is_calibrated_on_batches(labels: int) -> None:
    net = _Pair()
    net.initialize(mx.init.Uniform(1.0))
    random = np.random.default_rng(0)
    arrays = [mx.nd.array(random.random((8, 2))) for _ in range(2)]
    dataset = mx.gluon.data.ArrayDataset(*arrays, *[mx.nd.zeros((8,))] * labels)
    loader = mx.gluon.data.DataLoader(dataset, batch_size=4)
    made = quantization.quantize_net_v2(net, "int8", calib_data=loader, calib_mode="naive")
    assert 0 < np.abs(made(*arrays).asnumpy() - net(*arrays).asnumpy()).max() < 0.1
    with pytest.raises(ValueError, match="calib_data must be provided"):
        quantization.quantize_net(
            net, data_shapes=[mx.io.DataDesc("data", (1, 2))] * 2, calib_mode="naive"
        )


def test_a_loaded_block_is_quantized_for_given_shapes() -> None:
    net = topic.make_net(mx)
    net.hybridize()
    x = mx.nd.array(np.random.default_rng(0).random((2, 3, 12, 12)))
    expected = net(x).asnumpy()
    again = compiled_graph(net)
    made = quantization.quantize_net(again, data_shapes=[mx.io.DataDesc("data", (2, 3, 12, 12))])
    assert 0 < np.abs(made(x).asnumpy() - expected).max() < 0.5
    with pytest.raises(ValueError, match="data_shapes required"):
        quantization.quantize_net(net)


def _call(**options: Any) -> None:
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc1")
    quantization.quantize_model(symbol, {}, {}, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: _call(quantized_dtype="int4"), ValueError, "quantized_dtype is 'int4'"),
        (lambda: _call(quantize_mode="clever"), ValueError, "quantize_mode is 'clever'"),
        (lambda: _call(calib_mode="kl", calib_data=[]), ValueError, "calib_mode is 'kl'"),
        (lambda: _call(calib_mode="naive"), ValueError, "needs a data iterator"),
        (lambda: _call(calib_data=[1]), ValueError, "calib_data is list"),
        (lambda: _call(excluded_sym_names="fc1"), ValueError, "expected a list of names of nodes"),
        (lambda: _call(excluded_sym_names=["fc9"]), GraphError, "no node 'fc9'"),
        (
            lambda: _call(quantize_granularity="channel-wise"),
            ValueError,
            "quantize_granularity is 'channel-wise'",
        ),
    ],
)
def test_invalid_arguments_are_refused(
    call: Callable[[], None], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
