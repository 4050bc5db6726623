"""Prediction statistics: what each request adds, and the totals."""

from __future__ import annotations

from types import SimpleNamespace

from prometheus_client import generate_latest

from app.api.v1.prediction_metrics import prediction_metrics
from app.domain.module import ModuleRecord
from app.link.packed_frames import BatchFacts
from app.services.predictions.statistics import BatchStatistics, Statistics


def record() -> ModuleRecord:
    return ModuleRecord(name="net", symbols={})


def test_parts_of_a_batch_count_as_one_batch() -> None:
    one = Statistics().of(record(), "live")
    facts = BatchFacts(rows=7, input_us=1, infer_us=100, output_us=2)
    for rows in (4, 2, 1):
        one.add_success(rows, 150_000, 10, 40_000, facts)
    one.add_success(1, 90_000, 20, 0, BatchFacts(rows=1, infer_us=30))
    assert one.batches() == [
        BatchStatistics(size=1, batches=1, input_ns=0, infer_ns=30_000, output_ns=0),
        BatchStatistics(size=7, batches=1, input_ns=1000, infer_ns=100_000, output_ns=2000),
    ]
    assert (one.successes, one.examples, one.success_ns) == (4, 8, 540_000)
    assert (one.queue_ns, one.infer_ns, one.last_ended_ns) == (120_000, 330_000, 20)


def test_a_batch_with_an_abandoned_request_counts_in_full() -> None:
    one = Statistics().of(record(), "live")
    one.add_success(1, 1, 1, 1, BatchFacts(rows=3, infer_us=30))
    assert [batch.batches for batch in one.batches()] == [1]


def test_a_request_computed_in_pieces_is_a_batch_of_its_size() -> None:
    one = Statistics().of(record(), "live")
    one.add_success(5000, 1, 1, 1, BatchFacts(rows=0))
    assert [(batch.size, batch.batches) for batch in one.batches()] == [(5000, 1)]


def test_statistics_of_deleted_modules_are_dropped() -> None:
    statistics = Statistics()
    statistics.of(record(), "live").add_failure(5)
    assert statistics.of(record(), "live").failures == 1
    statistics.forget("net")
    assert list(statistics) == []


def test_versions_are_counted_separately() -> None:
    statistics = Statistics()
    for version, rows in (("live", 1), ("2", 3), ("live", 1)):
        statistics.of(record(), version).add_success(rows, 1, 1, 1, BatchFacts(rows=rows))
    assert statistics.asked(record()) == ["live", "2"]
    assert [statistics.find(record(), one).examples for one in ("live", "2", "3")] == [2, 3, 0]
    assert statistics.asked(record()) == ["live", "2"], "finding statistics adds no version"


def test_of_too_many_versions_the_most_recent_are_kept() -> None:
    statistics = Statistics()
    for number in range(100):
        one = statistics.of(record(), str(number))
        one.add_success(1, 1, 1000 + number, 1, BatchFacts(rows=1))
        statistics.of(record(), "live").add_success(1, 1, 1000 + number, 1, BatchFacts(rows=1))
    asked = statistics.asked(record())
    assert len(asked) == 64
    assert {"live", "99"} <= set(asked)
    assert statistics.find(record(), "live").examples == 100


def test_prometheus_metrics_are_updated() -> None:
    statistics = Statistics()
    one = statistics.of(record(), "live")
    one.add_success(3, 2_000_000, 1, 500_000, BatchFacts(rows=3, infer_us=1000))
    one.add_failure(1_000_000)
    collector = SimpleNamespace(collect=lambda: prediction_metrics(statistics))
    rows = generate_latest(collector).decode().splitlines()
    net = 'module="net",version="live"'
    assert {
        'modserve_predictions_total{module="net",outcome="success",version="live"} 1.0',
        'modserve_predictions_total{module="net",outcome="failure",version="live"} 1.0',
        f"modserve_prediction_examples_total{{{net}}} 3.0",
        'modserve_prediction_seconds_total{module="net",part="compute_infer",version="live"} 0.001',
        f'modserve_prediction_batch_size_bucket{{le="2",{net}}} 0.0',
        f'modserve_prediction_batch_size_bucket{{le="4",{net}}} 1.0',
        f"modserve_prediction_batch_size_count{{{net}}} 1.0",
        f"modserve_prediction_batch_size_sum{{{net}}} 3.0",
        f'modserve_prediction_queue_seconds_bucket{{le="0.000262144",{net}}} 0.0',
        f'modserve_prediction_queue_seconds_bucket{{le="0.000524288",{net}}} 1.0',
        f"modserve_prediction_queue_seconds_sum{{{net}}} 0.0005",
    } <= set(rows)
