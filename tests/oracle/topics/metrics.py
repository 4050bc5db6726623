"""Metrics over several batches: names and values, local and global."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CASES", "record", "run_case"]

BATCHES = 3
Batch = tuple[list[np.ndarray], list[np.ndarray]]


def classes(random: np.random.RandomState) -> Batch:
    """Return labels (8,) and class probabilities (8, 5)."""
    scores = np.exp(random.normal(size=(8, 5)))
    return [random.randint(0, 5, 8)], [scores / scores.sum(axis=1, keepdims=True)]


def class_numbers(random: np.random.RandomState) -> Batch:
    """Return labels and predicted classes, both (8,)."""
    return [random.randint(0, 3, 8)], [random.randint(0, 3, 8)]


def maps(random: np.random.RandomState) -> Batch:
    """Return labels (2, 3) and probabilities (2, 3, 3), the class on axis 1."""
    scores = np.exp(random.normal(size=(2, 3, 3)))
    return [random.randint(0, 3, (2, 3))], [scores / scores.sum(axis=1, keepdims=True)]


def binary(random: np.random.RandomState) -> Batch:
    """Return labels (10,) of 0 and 1, and probabilities (10, 2)."""
    positive = random.uniform(size=10)
    return [random.randint(0, 2, 10)], [np.stack([1 - positive, positive], axis=1)]


def one_sided(random: np.random.RandomState) -> Batch:
    """Return labels that are all 0: precision and recall have a zero denominator."""
    return [np.zeros(4)], [np.tile([0.9, 0.1], (4, 1))]


def numbers(random: np.random.RandomState) -> Batch:
    """Return labels (6,) and predictions (6, 1)."""
    return [random.normal(size=6)], [random.normal(size=(6, 1))]


def rows(random: np.random.RandomState) -> Batch:
    """Return labels and predictions (6, 3)."""
    labels = random.normal(size=(6, 3))
    return [labels], [labels + random.normal(size=(6, 3))]


def words(random: np.random.RandomState) -> Batch:
    """Return labels (2, 4), 0 for padding, and probabilities (8, 5)."""
    (_,), (scores,) = classes(random)
    return [random.randint(0, 5, (2, 4))], [scores]


def two_outputs(random: np.random.RandomState) -> Batch:
    """Return two labels and two class probabilities."""
    (first_labels,), (first,) = classes(random)
    (second_labels,), (second,) = classes(random)
    return [first_labels, second_labels], [first, second]


def losses(random: np.random.RandomState) -> Batch:
    """Return a label that is not read, and two outputs that are losses."""
    return [np.zeros(4)], [random.uniform(size=4), random.uniform(size=(2, 3))]


def distance(label: np.ndarray, pred: np.ndarray) -> float:
    """Return the mean distance, as a custom metric."""
    return float(np.abs(label - pred.reshape(label.shape)).mean())


def hits(label: np.ndarray, pred: np.ndarray) -> tuple[int, int]:
    """Return (sum, count), as a custom metric may."""
    return int((pred.argmax(axis=1) == label).sum()), label.size


Make = Callable[[Any], Any]
CASES: dict[str, tuple[Make, Callable[[np.random.RandomState], Batch]]] = {
    "accuracy": (lambda mx: mx.metric.create("acc"), classes),
    "accuracy_class_numbers": (lambda mx: mx.metric.Accuracy(name="mine"), class_numbers),
    "accuracy_axis": (lambda mx: mx.metric.Accuracy(axis=1), maps),
    "accuracy_two_outputs": (lambda mx: mx.metric.create("accuracy"), two_outputs),
    "top_k": (lambda mx: mx.metric.create("top_k_accuracy", top_k=3), classes),
    "top_k_alias": (lambda mx: mx.metric.create("top_k_acc", top_k=2), classes),
    "f1": (lambda mx: mx.metric.create("f1"), binary),
    "f1_micro": (lambda mx: mx.metric.F1(average="micro"), binary),
    "f1_one_sided": (lambda mx: mx.metric.F1(), one_sided),
    "mcc": (lambda mx: mx.metric.create("mcc"), binary),
    "mcc_micro": (lambda mx: mx.metric.MCC(average="micro"), binary),
    "mcc_one_sided": (lambda mx: mx.metric.MCC(), one_sided),
    "pcc": (lambda mx: mx.metric.create("pcc"), classes),
    "perplexity": (lambda mx: mx.metric.Perplexity(ignore_label=None), classes),
    "perplexity_ignore": (lambda mx: mx.metric.Perplexity(ignore_label=0), words),
    "perplexity_axis": (lambda mx: mx.metric.Perplexity(ignore_label=None, axis=1), classes),
    "mae": (lambda mx: mx.metric.create("mae"), numbers),
    "mae_rows": (lambda mx: mx.metric.create("mae"), rows),
    "mse": (lambda mx: mx.metric.create("mse"), numbers),
    "mse_rows": (lambda mx: mx.metric.create("mse"), rows),
    "rmse": (lambda mx: mx.metric.create("rmse"), numbers),
    "rmse_rows": (lambda mx: mx.metric.create("rmse"), rows),
    "cross_entropy": (lambda mx: mx.metric.create("ce"), classes),
    "cross_entropy_eps": (lambda mx: mx.metric.create("crossentropy", eps=0.1), classes),
    "nll_loss": (lambda mx: mx.metric.create("nll_loss"), classes),
    "pearson": (lambda mx: mx.metric.create("pearsonr"), rows),
    "pearson_micro": (lambda mx: mx.metric.PearsonCorrelation(average="micro"), rows),
    "loss": (lambda mx: mx.metric.create("loss"), losses),
    "torch": (lambda mx: mx.metric.create("torch"), losses),
    "caffe": (lambda mx: mx.metric.create("caffe"), losses),
    "custom": (lambda mx: mx.metric.np(distance), rows),
    "custom_lambda": (lambda mx: mx.metric.CustomMetric(lambda x, y: float(x.sum())), rows),
    "custom_counted": (lambda mx: mx.metric.create(hits), classes),
    "composite": (
        lambda mx: mx.metric.create(["acc", "ce", mx.metric.TopKAccuracy(top_k=2)]),
        classes,
    ),
    "composite_custom": (lambda mx: mx.metric.create([distance, "mse"]), rows),
}


def run_case(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return names, and local and global values after each batch and around a local reset."""
    make, batch = CASES[case_id]
    metric = make(mx)
    random = np.random.RandomState(23)
    local, overall = [_values(metric.get())], [_values(metric.get_global())]
    for number in range(BATCHES):
        if number == BATCHES - 1:
            metric.reset_local()
            local.append(_values(metric.get()))
            overall.append(_values(metric.get_global()))
        labels, preds = batch(random)
        metric.update(_to_device(mx, labels), _to_device(mx, preds))
        local.append(_values(metric.get()))
        overall.append(_values(metric.get_global()))
    metric.reset()
    local.append(_values(metric.get()))
    names = [name for name, _ in metric.get_name_value()]
    return {"names": np.array(names), "local": np.array(local), "global": np.array(overall)}


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }


def _values(got: tuple[Any, Any]) -> list[float]:
    values = got[1] if isinstance(got[1], list) else [got[1]]
    return [float(value) for value in values]


def _to_device(mx: Any, arrays: list[np.ndarray]) -> list[Any]:
    return [mx.nd.array(x) for x in arrays]
