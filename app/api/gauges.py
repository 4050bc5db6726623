"""What Prometheus is told of executors and jobs, as it is at the moment of the question."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from app.api.prediction_metrics import prediction_metrics
from app.services.services import Services

__all__ = ["Gauges"]

_FACTS = {
    "restarts": "How often it was started again",
    "rss_bytes": "Memory of its process",
    "calls_under_way": "Calls that wait for its answer",
    "request_bytes": "Shared memory held by requests",
    "busy_seconds": "How long it has been at its present call or batch",
}


class Gauges:
    """A collector, asked once."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        dead = self._services.executors.dead()
        ready = GaugeMetricFamily(
            "modserve_executor_ready", "1 where it answers calls", labels=["executor"]
        )
        for name in self._services.executors.names:
            ready.add_metric([name], 0.0 if name in dead else 1.0)
        yield ready
        status = self._services.executors.status()
        for fact, says in _FACTS.items():
            gauge = GaugeMetricFamily(f"modserve_executor_{fact}", says, labels=["executor"])
            for name, facts in status.items():
                gauge.add_metric([name], facts[fact])
            yield gauge
        jobs = GaugeMetricFamily("modserve_jobs", "Jobs by status", labels=["status"])
        for each, count in self._services.jobs.count().items():
            jobs.add_metric([each.value], count)
        yield jobs
        yield from prediction_metrics(self._services.statistics)
