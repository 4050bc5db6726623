"""All routers: one per noun."""

from __future__ import annotations

from app.api.security import session
from app.api.v1 import (
    bucket_plans,
    checkpoints,
    datasets,
    error_codes,
    events,
    health,
    image_datasets,
    insights,
    jobs,
    labels,
    models,
    modules,
    params,
    serving,
    steps,
    transforms,
    versions,
)

__all__ = ["ROUTERS"]

# Routes are matched in this order: those with many small requests come first.
ROUTERS = (
    jobs.router,
    modules.router,
    bucket_plans.router,
    insights.router,
    params.router,
    steps.router,
    serving.router,
    labels.router,
    transforms.router,
    versions.router,
    checkpoints.router,
    datasets.router,
    image_datasets.router,
    models.router,
    events.router,
    health.router,
    session.router,
    error_codes.router,
)
