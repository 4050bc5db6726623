"""The loss reported beside the metrics. Expected values: NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.errors.tree import HostError
from app.executor.jobs.job_metrics import make_metrics, update_metric
from app.executor.jobs.losses import LossMeter

RNG = np.random.default_rng(0)


def measure(symbol, label: np.ndarray, output: np.ndarray, name: str = "softmax_label"):
    meter = LossMeter(symbol)
    named = dict(zip(symbol.list_outputs(), [mx.nd.array(output)], strict=True))
    assert meter.update({name: mx.nd.array(label)}, named, len(output))
    return meter.mean


def softmax(*shape: int, axis: int = -1) -> np.ndarray:
    exp = np.exp(RNG.normal(size=shape))
    return (exp / exp.sum(axis=axis, keepdims=True)).astype(np.float32)


def test_cross_entropy_of_a_softmax_output():
    net = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax")
    p, label = softmax(5, 4), np.array([0, 3, 1, 1, 2])
    expected = -np.log(p[np.arange(5), label]).mean()
    assert measure(net, label, p) == pytest.approx(expected, rel=1e-6)


def test_cross_entropy_ignores_ignored_labels():
    net = mx.sym.SoftmaxOutput(
        mx.sym.Variable("data"), name="softmax", use_ignore=True, ignore_label=0
    )
    p, label = softmax(5, 4), np.array([0, 3, 1, 0, 2])
    rows = [1, 2, 4]
    expected = -np.log(p[rows, label[rows]]).mean()
    assert measure(net, label, p) == pytest.approx(expected, rel=1e-6)


def test_cross_entropy_over_image_positions():
    net = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax", multi_output=True)
    p, label = softmax(2, 3, 4, axis=1), RNG.integers(0, 3, (2, 4))
    expected = -np.mean([np.log(p[n, label[n, i], i]) for n in range(2) for i in range(4)])
    assert measure(net, label, p) == pytest.approx(expected, rel=1e-6)


def test_cross_entropy_with_probabilities_as_labels():
    net = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax")
    p, label = softmax(3, 4), softmax(3, 4)
    expected = -(label * np.log(p)).sum() / 3
    assert measure(net, label, p) == pytest.approx(expected, rel=1e-6)


def test_a_label_reshaped_inside_the_graph():
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    net = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), label=label, name="softmax")
    p, truth = softmax(6, 4), RNG.integers(0, 4, (2, 3))
    expected = -np.log(p[np.arange(6), truth.ravel()]).mean()
    assert measure(net, truth, p) == pytest.approx(expected, rel=1e-6)


def test_losses_of_regressions():
    label, output = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 2))
    data, target = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    square = mx.sym.LinearRegressionOutput(data, target)
    expected = ((output - label) ** 2).mean()
    assert measure(square, label, output) == pytest.approx(expected, rel=1e-5)
    absolute = mx.sym.MAERegressionOutput(data, target)
    expected = np.abs(output - label).mean()
    assert measure(absolute, label, output) == pytest.approx(expected, rel=1e-5)
    logistic = mx.sym.LogisticRegressionOutput(data, target)
    p, yes = 1 / (1 + np.exp(-output)), (label > 0).astype(float)
    expected = -(yes * np.log(p) + (1 - yes) * np.log(1 - p)).mean()
    assert measure(logistic, yes, p) == pytest.approx(expected, rel=1e-5)


def test_the_loss_of_several_heads_is_their_sum():
    data = mx.sym.Variable("data")
    net = mx.sym.Group(
        [
            mx.sym.MakeLoss(data, name="a"),
            mx.sym.BlockGrad(data, name="b"),
            mx.sym.MakeLoss(data * 2, name="c"),
        ]
    )
    meter = LossMeter(net)
    outputs = {"a_output": [1.0, 3.0], "b_output": [np.nan, 0.0], "c_output": [2.0, 6.0]}
    named = {name: mx.nd.array(value) for name, value in outputs.items()}
    assert meter.update({}, named, 2)
    assert meter.mean == 6.0


def test_batches_are_weighted_by_their_examples():
    net = mx.sym.MakeLoss(mx.sym.Variable("data"), name="a")
    meter = LossMeter(net)
    assert meter.mean is None
    meter.update({}, {"a_output": mx.nd.array([1.0])}, 1)
    meter.update({}, {"a_output": mx.nd.array([4.0])}, 2)
    assert meter.mean == 3.0
    again = LossMeter(net)
    again.set_state(meter.get_state())
    assert again.mean == 3.0
    again.reset()
    assert again.mean is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_nan_loss_is_reported(value):
    net = mx.sym.MakeLoss(mx.sym.Variable("data"), name="a")
    assert not LossMeter(net).update({}, {"a_output": mx.nd.array([value])}, 1)


def test_without_a_loss_the_outputs_are_checked():
    net = mx.sym.softmax(mx.sym.Variable("data"), name="s")
    meter = LossMeter(net)
    assert meter.update({}, {"s_output": mx.nd.array([1.0])}, 1)
    assert not meter.update({}, {"s_output": mx.nd.array([1.0, np.nan])}, 1)
    assert meter.mean is None


def test_metrics_by_name():
    metric = make_metrics(["acc", '["top_k_accuracy", {"top_k": 2}]'], "metrics")
    labels, outputs = {"l": mx.nd.array([1, 0])}, {"o": mx.nd.array([[0.1, 0.9], [0.2, 0.8]])}
    update_metric(metric, labels, outputs, "metrics")
    assert metric.get() == (["accuracy", "top_k_accuracy_2"], [0.5, 1.0])
    with pytest.raises(HostError) as refusal:
        make_metrics(["acc", "acuracy"], "metrics")
    assert refusal.value.field_name == "metrics[1]"
