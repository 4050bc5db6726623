"""The server: its metadata, liveness and readiness."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from app.api.dependencies import ServicesOf
from app.api.v2.openapi import answers, not_ready
from app.api.v2.views import ServerLiveness, ServerMetadata, ServerReadiness

__all__ = ["router"]

router = APIRouter(prefix="/v2", tags=["inference protocol"])

_EXTENSIONS = [
    *("binary_tensor_data", "classification", "model_configuration", "model_repository"),
    *("schedule_policy", "sequence", "statistics"),
]
_SERVER = {"name": "modserve", "version": version("modserve"), "extensions": _EXTENSIONS}


@router.get(
    "",
    summary="Describe the server",
    response_model=ServerMetadata,
    responses=answers(ServerMetadata, _SERVER),
)
@router.get("/", include_in_schema=False)
async def get_server_metadata() -> dict[str, Any]:
    """Return the name, version and supported protocol extensions."""
    return _SERVER


@router.get(
    "/health/live",
    summary="Check that the server is alive (v2)",
    response_model=ServerLiveness,
    responses=answers(ServerLiveness, {"live": True}),
)
async def get_server_liveness() -> dict[str, Any]:
    """Answer as long as the event loop is running."""
    return {"live": True}


@router.get(
    "/health/ready",
    summary="Check that the server can infer",
    response_class=JSONResponse,
    responses=answers(ServerReadiness, {"ready": True}) | not_ready(ServerReadiness),
)
async def get_server_readiness(services: ServicesOf) -> Response:
    """Answer 200 if every executor is up, else 503."""
    dead = services.executors.dead()
    if dead:
        error = f"executors are down or starting: {', '.join(dead)}"
        return JSONResponse({"ready": False, "error": error}, 503, headers={"Retry-After": "1"})
    return JSONResponse({"ready": True})
