"""Gauges of executors, jobs and the disk for Prometheus, read when it scrapes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from app.api.v1.prediction_metrics import prediction_metrics
from app.services.services import Services

__all__ = ["Gauges"]

_FACTS = {
    "restarts": "How often the executor was restarted",
    "rss_bytes": "Memory of the executor's process",
    "calls_under_way": "Calls that wait for the executor's answer",
    "request_bytes": "Shared memory held by requests to the executor",
    "busy_seconds": "How long the executor has been computing its current call or batch",
}


class Gauges:
    """A collector for one scrape."""

    def __init__(self, services: Services, data_dir: Path) -> None:
        self._services = services
        self._data_dir = data_dir

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        dead = self._services.executors.dead()
        ready = GaugeMetricFamily(
            "modserve_executor_ready", "1 if the executor answers calls", labels=["executor"]
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
        yield GaugeMetricFamily(
            "modserve_warnings", "Warnings of /readyz", len(self._services.warnings())
        )
        disk = shutil.disk_usage(self._data_dir)
        yield GaugeMetricFamily(
            "modserve_data_free_bytes", "Free space of the data directory's file system", disk.free
        )
        yield GaugeMetricFamily(
            "modserve_data_size_bytes", "Size of the data directory's file system", disk.total
        )
        yield from prediction_metrics(self._services.statistics)
