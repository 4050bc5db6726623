"""Statistics of models, in the form of the statistics extension."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from app.api.dependencies import ServicesOf
from app.domain.module import ModuleRecord
from app.oip.openapi import ModelName, VersionName, answers
from app.oip.repository_routes import all_models
from app.oip.requests import model_now
from app.oip.versions import number_of, versions_of
from app.services.services import Services
from app.services.statistics import ModuleStatistics

__all__ = ["router"]

router = APIRouter(prefix="/v2/models", tags=["inference protocol"])

_SUM = {"count": 1, "ns": 210000}
_EXAMPLE = {
    "model_stats": [
        {
            "name": "mlp",
            "version": "0",
            "last_inference": 1763842000123,
            "inference_count": 1,
            "execution_count": 1,
            "inference_stats": {
                **dict.fromkeys(("success", "queue"), _SUM),
                "fail": {"count": 0, "ns": 0},
                **dict.fromkeys(("compute_input", "compute_infer", "compute_output"), _SUM),
            },
            "batch_stats": [
                {
                    "batch_size": 1,
                    **dict.fromkeys(("compute_input", "compute_infer", "compute_output"), _SUM),
                }
            ],
        }
    ]
}


@router.get("/stats", summary="Statistics of all models", responses=answers(_EXAMPLE, 503))
async def list_model_statistics(services: ServicesOf) -> dict[str, Any]:
    """Return counts and times of predictions since the server began, under /v1 and /v2."""
    records = await asyncio.to_thread(all_models, services)
    return {"model_stats": [_statistics(services, record) for record in records]}


@router.get(
    "/{model}/stats", summary="Statistics of a model", responses=answers(_EXAMPLE, 404, 503)
)
async def get_model_statistics(model: ModelName, services: ServicesOf) -> dict[str, Any]:
    """Return counts and times of a model's predictions since the server began.

    `inference_count` counts examples, `execution_count` batches. Times are in nanoseconds, summed
    up: those of a batch count for each request in it. The version `live` has the number 0 here, for
    clients that read nothing else.
    """
    return {"model_stats": [_statistics(services, await model_now(services, model))]}


@router.get(
    "/{model}/versions/{version}/stats",
    summary="Statistics of a version",
    responses=answers(_EXAMPLE, 404, 503),
)
async def get_version_statistics(
    model: ModelName, version: VersionName, services: ServicesOf
) -> dict[str, Any]:
    """Return counts and times of a version's predictions since the server began."""
    record = await model_now(services, model)
    await services.versions.choose(record, version)
    return {"model_stats": [_statistics(services, record)]}


def _statistics(services: Services, record: ModuleRecord) -> dict[str, Any]:
    found = services.statistics.of(record)
    batches = found.batches()
    return {
        "name": record.public_name,
        "version": number_of(versions_of(record)[0]),
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


def _sums(found: ModuleStatistics) -> dict[str, Any]:
    count = found.successes
    return {
        "success": {"count": count, "ns": found.success_ns},
        "fail": {"count": found.failures, "ns": found.failure_ns},
        "queue": {"count": count, "ns": found.queue_ns},
        "compute_input": {"count": count, "ns": found.input_ns},
        "compute_infer": {"count": count, "ns": found.infer_ns},
        "compute_output": {"count": count, "ns": found.output_ns},
    }
