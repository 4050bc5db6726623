"""Metrics of predictions for Prometheus: counted continuously, formatted when it scrapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from app.services.predictions.statistics import Statistics, VersionStatistics

__all__ = ["prediction_metrics"]

_SHORTEST_BITS, _LONGEST_BITS = 10, 35
"""Histogram bounds of queue times: powers of two, from a microsecond to half a minute."""
_LARGEST_BATCH_BITS = 17
_LABELS = ("module", "version")


def prediction_metrics(statistics: Statistics) -> Iterator[Metric]:
    """Yield counters and histograms by module and version."""
    ended = CounterMetricFamily(
        "modserve_predictions", "Predictions that succeeded or failed", labels=[*_LABELS, "outcome"]
    )
    examples = CounterMetricFamily(
        "modserve_prediction_examples", "Examples that were predicted", labels=_LABELS
    )
    seconds = CounterMetricFamily(
        "modserve_prediction_seconds",
        "Seconds that predictions took: in total and by phase",
        labels=[*_LABELS, "part"],
    )
    queue = HistogramMetricFamily(
        "modserve_prediction_queue_seconds",
        "How long predictions waited for their batch",
        labels=_LABELS,
    )
    batches = HistogramMetricFamily(
        "modserve_prediction_batch_size", "Number of examples in a batch", labels=_LABELS
    )
    answered = CounterMetricFamily(
        "modserve_instance_predictions",
        "Predictions answered, by executor",
        labels=["module", "executor"],
    )
    for module, counts in list(statistics.answers().items()):
        for executor, count in list(counts.items()):
            answered.add_metric([module, executor], count)
    for one in statistics:
        labels = [one.module, one.version]
        ended.add_metric([*labels, "success"], one.successes)
        ended.add_metric([*labels, "failure"], one.failures)
        examples.add_metric(labels, one.examples)
        parts = {
            "total": one.success_ns + one.failure_ns,
            "queue": one.queue_ns,
            "compute_input": one.input_ns,
            "compute_infer": one.infer_ns,
            "compute_output": one.output_ns,
        }
        for part, ns in parts.items():
            seconds.add_metric([*labels, part], ns * 1e-9)
        queue.add_metric(labels, _queue_buckets(one.queue_counts), one.queue_ns * 1e-9)
        batches.add_metric(labels, _batch_buckets(one), one.examples)
    yield from (ended, examples, answered, seconds, queue, batches)


def _queue_buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    sums = list(accumulate(counts))
    buckets = [
        (f"{2**bits * 1e-9:g}", float(sums[bits])) for bits in range(_SHORTEST_BITS, _LONGEST_BITS)
    ]
    return [*buckets, ("+Inf", float(sums[-1]))]


def _batch_buckets(one: VersionStatistics) -> list[tuple[str, float]]:
    batches = one.batches()
    buckets = [
        (str(1 << bits), float(sum(each.batches for each in batches if each.size <= 1 << bits)))
        for bits in range(_LARGEST_BATCH_BITS)
    ]
    return [*buckets, ("+Inf", float(sum(each.batches for each in batches)))]
