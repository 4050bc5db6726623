"""The server's health: for orchestrators, operators and people."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import ServicesOf
from app.api.filters import ALL, ExecutorNames, ExecutorStates
from app.api.openapi import problems
from app.api.v1.executor_views import ExecutorView
from app.api.v1.gauges import Gauges
from app.api.v1.views import PageView, StatusView
from app.folder_names import without_folder_names
from app.settings import Settings

__all__ = ["router"]

router = APIRouter(tags=["operations"])

_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "Not ready: an executor is down or starting",
        "model": StatusView,
        "content": {
            "application/json": {
                "example": {"status": "unready", "executors": {"cpu(0)": "down"}, "warnings": []}
            }
        },
    }
}
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in Prometheus' text format",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@router.get("/livez", summary="Check that the server is alive")
async def get_liveness() -> StatusView:
    """Answer as long as the event loop runs."""
    return StatusView(status="alive")


@router.get(
    "/readyz",
    summary="Check that the server can answer all calls",
    response_model=StatusView,
    responses=_NOT_READY,
)
async def get_readiness(services: ServicesOf) -> Response:
    """Answer 200 when every executor is up, else 503.

    Modules are loaded to their devices when they are first called. One that cannot be loaded does
    not affect others, and is named in `warnings`, as are damages found at the start, models of
    the models folder that could not be loaded, and a disk that is full or nearly so.
    """
    dead = set(services.executors.dead())
    states = {name: "down" if name in dead else "ready" for name in services.executors.names}
    warnings = await asyncio.to_thread(services.warnings)
    view = StatusView(status="unready" if dead else "ready", executors=states, warnings=warnings)
    headers = {"Retry-After": "1"} if dead else {}
    return JSONResponse(view.model_dump(), 503 if dead else 200, headers=headers)


@router.get(
    "/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse, responses=_TEXT
)
def get_server_metrics(services: ServicesOf, request: Request) -> Response:
    """Return counters and timings of requests, executors and jobs in Prometheus' text format."""
    settings: Settings = request.app.state.settings
    text = generate_latest() + generate_latest(Gauges(services, settings.data_dir))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/executors", summary="List executors", responses=problems(422))
async def list_executors(
    services: ServicesOf, name: ExecutorNames = ALL, state: ExecutorStates = ALL
) -> PageView[ExecutorView]:
    """Return the executors: device, state, memory, modules and jobs."""
    for one in name:
        services.executors.check(one, "name")
    found = [_view(one) for one in await services.executors.describe()]
    wanted = [
        one for one in found if (not name or one.name in name) and (not state or one.state in state)
    ]
    return PageView(items=wanted)


def _view(facts: dict[str, Any]) -> ExecutorView:
    for module in facts.get("modules", ()):
        module["name"] = without_folder_names(module["name"])
    return ExecutorView(**facts)
