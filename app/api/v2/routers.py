"""All routers of the protocol."""

from __future__ import annotations

from app.api.v2 import (
    infer_routes,
    model_routes,
    repository_routes,
    server_routes,
    statistics_routes,
)
from app.api.v2.named_models import of_versions

__all__ = ["ROUTERS"]

ROUTERS = (
    server_routes.router,
    statistics_routes.router,
    model_routes.router,
    of_versions(model_routes.router),
    infer_routes.router,
    of_versions(infer_routes.router),
    repository_routes.router,
)
"""The statistics of all models come first, before a model of that name."""
