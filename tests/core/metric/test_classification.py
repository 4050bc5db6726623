"""Metrics of classifiers where MXNet's are wrong; the others are in test_golden.py."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx

PROBABILITIES = np.array([0.9, 0.6, 0.4, 0.1, 0.7], np.float32)
LABELS = np.array([1, 1, 0, 0, 0], np.float32)


@pytest.mark.parametrize(
    ("name", "shapes", "wanted"),
    # Four of five are right: two true positives, one false positive, two true negatives.
    [
        ("acc", [(5, 1), (5,)], 0.8),
        ("acc", [(5, 1), (5, 1)], 0.8),
        ("acc", [(5,), (5,)], 0.8),
        ("pcc", [(5, 1), (5,)], 4 / 6),
        ("pcc", [(5,), (5,)], 4 / 6),
        ("f1", [(5, 1), (5,)], 0.8),
        ("mcc", [(5, 1), (5, 1)], 4 / 6),
    ],
)
def test_a_single_column_is_the_probability_of_class_one(
    name: str, shapes: list[tuple[int, ...]], wanted: float
) -> None:
    pred, label = shapes
    metric = mx.metric.create(name)
    metric.update([mx.nd.array(LABELS.reshape(label))], [mx.nd.array(PROBABILITIES.reshape(pred))])
    assert metric.get()[1] == pytest.approx(wanted)


def test_classes_with_the_shape_of_the_labels_stay_classes() -> None:
    for pred, label in (([0, 2, 1], [0, 2, 0]), ([0, 1, 1], [0, 1, 0])):
        metric = mx.metric.Accuracy()
        metric.update([mx.nd.array(label)], [mx.nd.array(pred)])
        assert metric.get()[1] == pytest.approx(2 / 3)


def test_module_score_of_a_logistic_regression() -> None:
    x = np.r_[np.ones((4, 2)), -np.ones((4, 2))].astype("f")
    output = mx.sym.LogisticRegressionOutput(
        mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc"),
        mx.sym.Variable("softmax_label"),
    )
    module = mx.mod.Module(output)
    batches = mx.io.NDArrayIter(x, (x[:, 0] > 0).astype("f"), 4)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.One())
    assert module.score(batches, "acc") == [("accuracy", 1.0)]
