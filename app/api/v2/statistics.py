"""Statistics of models, as the statistics extension defines them."""

from __future__ import annotations

from typing import Any

from app.api.v2.versions import versions_of
from app.domain.module import ModuleRecord
from app.domain.versions import LIVE
from app.services.predictions.statistics import VersionStatistics
from app.services.services import Services

__all__ = ["STATISTICS", "statistics_of"]

_LIVE_NUMBER = "0"

_SUM = {"count": 1, "ns": 210000}
_COMPUTED = dict.fromkeys(("compute_input", "compute_infer", "compute_output"), _SUM)
STATISTICS = {
    "model_stats": [
        {
            "name": "mlp",
            "version": "0",
            "last_inference": 1763842000123,
            "inference_count": 1,
            "execution_count": 1,
            "inference_stats": {
                "success": _SUM,
                "fail": {"count": 0, "ns": 0},
                "queue": _SUM,
                **_COMPUTED,
            },
            "batch_stats": [{"batch_size": 1, **_COMPUTED}],
        }
    ]
}
"""An example of it."""


def statistics_of(
    services: Services, record: ModuleRecord, version: str | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a model.

    Args:
        version: the requested one; None for all that were used or take part in serving.
    """
    if version is not None:
        names = [version]
    else:
        names = list(dict.fromkeys([*versions_of(record), *services.statistics.asked(record)]))
    return [_row(services.statistics.find(record, name), _number_of(name, names)) for name in names]


def _number_of(version: str, beside: list[str]) -> str:
    """Return a version as a number, because perf_analyzer stops at anything else."""
    return _LIVE_NUMBER if version == LIVE and _LIVE_NUMBER not in beside else version


def _row(found: VersionStatistics, version: str) -> dict[str, Any]:
    batches = found.batches()
    return {
        "name": found.module,
        "version": version,
        "last_inference": found.last_ended_ms(),
        "inference_count": found.examples,
        "execution_count": sum(one.batches for one in batches),
        "inference_stats": _sums(found),
        "batch_stats": [
            {
                "batch_size": one.size,
                "compute_input": {"count": one.batches, "ns": one.input_ns},
                "compute_infer": {"count": one.batches, "ns": one.infer_ns},
                "compute_output": {"count": one.batches, "ns": one.output_ns},
            }
            for one in batches
        ],
    }


def _sums(found: VersionStatistics) -> dict[str, Any]:
    count = found.successes
    return {
        "success": {"count": count, "ns": found.success_ns},
        "fail": {"count": found.failures, "ns": found.failure_ns},
        "queue": {"count": count, "ns": found.queue_ns},
        "compute_input": {"count": count, "ns": found.input_ns},
        "compute_infer": {"count": count, "ns": found.infer_ns},
        "compute_output": {"count": count, "ns": found.output_ns},
    }
