"""Statistics of all models."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from app.api.dependencies import ServicesOf
from app.api.v2.openapi import answers
from app.api.v2.repository_routes import all_models
from app.api.v2.statistics import STATISTICS, statistics_of
from app.api.v2.views import StatisticsAnswer

__all__ = ["router"]

router = APIRouter(prefix="/v2/models", tags=["inference protocol"])


@router.get(
    "/stats",
    summary="Statistics of all models",
    response_model=StatisticsAnswer,
    responses=answers(StatisticsAnswer, STATISTICS, 503),
)
async def list_model_statistics(services: ServicesOf) -> dict[str, Any]:
    """Return counts and times of predictions since the server started, under /v1 and /v2."""
    records = await asyncio.to_thread(all_models, services)
    return {"model_stats": [row for one in records for row in statistics_of(services, one)]}
