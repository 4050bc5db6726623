"""Metrics of classifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from .base import EvalMetric, alias, check_label_shapes, register, to_host

__all__ = [
    "F1",
    "MCC",
    "PCC",
    "Accuracy",
    "CrossEntropy",
    "NegativeLogLikelihood",
    "Perplexity",
    "TopKAccuracy",
]

Names = Sequence[str] | None


def _predicted_classes(pred: Any, labels: tuple[int, ...] | None, axis: int) -> Any:
    """Return the classes that predictions choose.

    Predictions with the shape of the labels are classes already, unless they can only be
    probabilities. Over a single class MXNet chooses class 0 whatever is predicted.
    """
    if pred.shape == labels:
        is_probability = np.issubdtype(pred.dtype, np.floating) and _are_probabilities(pred)
        return pred > 0.5 if is_probability else pred
    return pred > 0.5 if pred.shape[axis] == 1 else pred.argmax(axis=axis)


def _are_probabilities(values: Any) -> bool:
    """Return whether all values are between 0 and 1, and some are neither."""
    return bool(((values >= 0) & (values <= 1)).all() and ((values > 0) & (values < 1)).any())


@register
@alias("acc")
class Accuracy(EvalMetric):
    """Share of examples whose largest prediction along ``axis`` is the label.

    Where there is one prediction for each example, it is the probability of class 1, which is
    chosen above 0.5.
    """

    def __init__(
        self,
        axis: int = 1,
        name: str = "accuracy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, axis=axis, has_global_stats=True)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            truth, guess = to_host(label), to_host(pred)
            guess = _predicted_classes(guess, truth.shape, self.axis)
            guess, truth = guess.astype(np.int32).ravel(), truth.astype(np.int32).ravel()
            check_label_shapes(truth, guess)
            self.accumulate(int((guess == truth).sum()), len(guess))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """Share of examples whose label is among the ``top_k`` largest predictions."""

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        if top_k <= 1:
            raise UsageError(f"top_k is {top_k}; use Accuracy if top_k is no more than 1")
        super().__init__(name, output_names, label_names, top_k=top_k, has_global_stats=True)
        self.top_k = top_k
        self.name += f"_{top_k}"

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            scores, truth = to_host(pred).astype(np.float32), to_host(label).astype(np.int32)
            if scores.ndim != 2:
                raise ValueError(
                    f"predictions have shape {scores.shape}; expected (batch, classes)"
                )
            check_label_shapes(truth, scores)
            best = min(self.top_k, scores.shape[1])
            ranked = np.argpartition(scores, -best, axis=1)[:, -best:]
            hits = (ranked == truth.reshape(-1, 1)).any(axis=1)
            self.accumulate(int(hits.sum()), len(scores))


class _Confusion:
    """Counts of true and false positives and negatives of a binary classifier."""

    def __init__(self) -> None:
        self.counts = np.zeros(4)

    def add(self, counts: Any) -> None:
        self.counts = self.counts + counts

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def fscore(self) -> float:
        true_positive, false_positive, false_negative, _ = self.counts.tolist()
        found, actual = true_positive + false_positive, true_positive + false_negative
        precision = true_positive / found if found else 0.0
        recall = true_positive / actual if actual else 0.0
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    def matthews(self) -> float:
        tp, fp, fn, tn = self.counts.tolist()
        if not self.total:
            return 0.0
        # An empty row or column counts as 1, as in MXNet: the coefficient is then 0, not NaN.
        terms = [term for term in (tp + fp, tp + fn, tn + fp, tn + fn) if term]
        return float((tp * tn - fp * fn) / math.sqrt(math.prod(terms)))


def _count_binary(metric: EvalMetric, label: Any, pred: Any) -> Any:
    truth, scores = to_host(label).astype(np.int32), to_host(pred)
    check_label_shapes(truth, scores)
    if len(np.unique(truth)) > 2:
        raise ValueError(f"{type(metric).__name__} currently only supports binary classification.")
    guess, actual = _predicted_classes(scores, None, 1).ravel() == 1, truth.ravel() == 1
    return np.array(
        [
            (guess & actual).sum(),
            (guess & ~actual).sum(),
            (~guess & actual).sum(),
            (~guess & ~actual).sum(),
        ],
        dtype=np.float64,
    )


class _BinaryMetric(EvalMetric):
    """A score of the confusion counts, averaged over batches (macro) or examples (micro)."""

    def __init__(self, name: str, output_names: Names, label_names: Names, average: str) -> None:
        if average not in ("macro", "micro"):
            raise ValueError(f"average is {average!r}; expected 'macro' or 'micro'")
        self.average = average
        self._local, self._global = _Confusion(), _Confusion()
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def score(self, confusion: _Confusion) -> float:
        raise NotImplementedError(f"{type(self).__name__} must define score")

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            counts = _count_binary(self, label, pred)
            self._local.add(counts)
            self._global.add(counts)
        # As in MXNet, macro averages the scores of single updates, so counting starts again.
        if self.average == "macro":
            self.sum_metric += self.score(self._local)
            self.global_sum_metric += self.score(self._global)
            self.num_inst += 1
            self.global_num_inst += 1
            self._local, self._global = _Confusion(), _Confusion()
        else:
            self.sum_metric = self.score(self._local) * self._local.total
            self.global_sum_metric = self.score(self._global) * self._global.total
            self.num_inst = self._local.total
            self.global_num_inst = self._global.total

    def reset(self) -> None:
        self._global = _Confusion()
        super().reset()

    def reset_local(self) -> None:
        self._local = _Confusion()
        super().reset_local()

    def get_state(self) -> dict[str, Any]:
        counts = {"local": self._local.counts.tolist(), "global": self._global.counts.tolist()}
        return {**super().get_state(), "counts": counts}

    def set_state(self, state: Any) -> None:
        super().set_state(state)
        self._local.counts = np.array(state["counts"]["local"])
        self._global.counts = np.array(state["counts"]["global"])


@register
class F1(_BinaryMetric):
    """Harmonic mean of precision and recall of a binary classifier."""

    def __init__(
        self,
        name: str = "f1",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def score(self, confusion: _Confusion) -> float:
        return confusion.fscore()


@register
class MCC(_BinaryMetric):
    """Matthews correlation coefficient of a binary classifier."""

    def __init__(
        self,
        name: str = "mcc",
        output_names: Names = None,
        label_names: Names = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)

    def score(self, confusion: _Confusion) -> float:
        return confusion.matthews()


@register
class PCC(EvalMetric):
    """Matthews correlation generalised to any number of classes (Gorodkin 2004)."""

    state_names = ("num_inst", "global_num_inst", "_local", "_global")

    def __init__(
        self,
        name: str = "pcc",
        output_names: Names = None,
        label_names: Names = None,
        has_global_stats: bool = True,
    ) -> None:
        self._local = self._global = np.zeros((2, 2))
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            truth, guess = to_host(label).astype(np.int32), to_host(pred)
            guess = _predicted_classes(guess, truth.shape, 1).astype(np.int32)
            classes = int(max(guess.max(), truth.max())) + 1
            counts = np.zeros((classes, classes))
            np.add.at(counts, (guess.ravel(), truth.ravel()), 1)
            self._local = _sum_padded(self._local, counts)
            self._global = _sum_padded(self._global, counts)
        # Not averaged: these only tell whether there was an update.
        self.num_inst += 1
        self.global_num_inst += 1

    def get(self) -> tuple[str, float]:
        return self.name, _matthews(self._local) if self.num_inst else float("nan")

    def get_global(self) -> tuple[str, float]:
        return self.name, _matthews(self._global) if self.global_num_inst else float("nan")

    def reset(self) -> None:
        self._global = np.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        self._local = np.zeros((2, 2))
        super().reset_local()


def _sum_padded(a: Any, b: Any) -> Any:
    size = max(len(a), len(b))
    total = np.zeros((size, size))
    total[: len(a), : len(a)] += a
    total[: len(b), : len(b)] += b
    return total


def _matthews(counts: Any) -> float:
    total, guessed, actual = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    spread = np.sum(guessed * (total - guessed)) * np.sum(actual * (total - actual))
    if spread == 0:
        return float("nan")
    shared = np.sum(counts.diagonal() * total - guessed * actual)
    return float(shared / spread**0.5)


@register
class Perplexity(EvalMetric):
    """exp of the mean negative log probability of the labels, ``ignore_label`` left out."""

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(
            name,
            output_names,
            label_names,
            ignore_label=ignore_label,
            axis=axis,
            has_global_stats=True,
        )
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        check_label_shapes(labels, preds)
        for label, pred in zip(labels, preds, strict=True):
            truth, scores = to_host(label), to_host(pred)
            classes = scores.shape[self.axis]
            if truth.size * classes != scores.size:
                raise UsageError(f"shape mismatch: {truth.shape} vs. {scores.shape}")
            rows = np.moveaxis(scores, self.axis, -1).reshape(-1, classes)
            flat = truth.astype(np.int32).ravel()
            chosen = rows[np.arange(flat.size), np.clip(flat, 0, classes - 1)]
            if self.ignore_label is not None:
                chosen = chosen[flat != self.ignore_label]
            # MXNet's bound for probabilities.
            loss = -np.log(np.maximum(1e-10, chosen)).sum(dtype=np.float64)
            self.accumulate(float(loss), chosen.size)

    def get(self) -> tuple[str, float]:
        return self.name, _exp_mean(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[str, float]:
        return self.name, _exp_mean(self.global_sum_metric, self.global_num_inst)


def _exp_mean(total: float, count: float) -> float:
    return math.exp(total / count) if count else float("nan")


class _LabelLogProbability(EvalMetric):
    """Mean negative log of the probability predicted for the label."""

    def __init__(self, name: str, output_names: Names, label_names: Names, eps: float) -> None:
        super().__init__(name, output_names, label_names, eps=eps, has_global_stats=True)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=True):
            truth, scores = to_host(label).ravel().astype(np.int64), to_host(pred)
            check_label_shapes(truth, scores)
            chosen = scores[np.arange(truth.size), truth]
            self.accumulate(float((-np.log(chosen + self.eps)).sum()), truth.size)


@register
@alias("ce")
class CrossEntropy(_LabelLogProbability):
    """Cross entropy of predicted probabilities and labels."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, eps)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_LabelLogProbability):
    """Negative log likelihood of the labels."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "nll-loss",
        output_names: Names = None,
        label_names: Names = None,
    ) -> None:
        super().__init__(name, output_names, label_names, eps)
