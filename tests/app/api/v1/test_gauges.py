"""Prometheus gauges for executors in their own processes."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

from prometheus_client import generate_latest

from app.api.v1.gauges import Gauges
from app.domain.job import JobStatus
from app.services.predictions.statistics import Statistics


def test_each_executor_and_status_has_a_sample(tmp_path: Path) -> None:
    facts = {"restarts": 2, "rss_bytes": 1e6, "calls_under_way": 3, "request_bytes": 64}
    executors = SimpleNamespace(
        names=["gpu(0)", "gpu(1)"],
        dead=lambda: ["gpu(1)"],
        status=lambda: {"gpu(0)": {**facts, "busy_seconds": 0.5, "state": "ready"}},
    )
    jobs = SimpleNamespace(count=lambda: {JobStatus.RUNNING: 4})
    services = SimpleNamespace(
        executors=executors,
        jobs=jobs,
        statistics=Statistics(),
        warnings=lambda: ["module lenet: restored from epoch 3"],
    )
    rows = generate_latest(Gauges(services, tmp_path)).decode().splitlines()
    values = {row for row in rows if not row.startswith("#")}
    disk = {row for row in values if row.startswith("modserve_data_")}
    size = next(row for row in disk if row.startswith("modserve_data_size_bytes "))
    free = next(row for row in disk if row.startswith("modserve_data_free_bytes "))
    assert float(size.split()[1]) == shutil.disk_usage(tmp_path).total
    assert 0 <= float(free.split()[1]) <= float(size.split()[1])
    assert values - disk == {
        'modserve_executor_ready{executor="gpu(0)"} 1.0',
        'modserve_executor_ready{executor="gpu(1)"} 0.0',
        'modserve_executor_restarts{executor="gpu(0)"} 2.0',
        'modserve_executor_rss_bytes{executor="gpu(0)"} 1e+06',
        'modserve_executor_calls_under_way{executor="gpu(0)"} 3.0',
        'modserve_executor_request_bytes{executor="gpu(0)"} 64.0',
        'modserve_executor_busy_seconds{executor="gpu(0)"} 0.5',
        'modserve_jobs{status="running"} 4.0',
        "modserve_warnings 1.0",
    }
