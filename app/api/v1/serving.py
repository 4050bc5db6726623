"""Settings for the serving of a module's predictions."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.api.bodies import read_change
from app.api.conditional import IF_MATCH
from app.api.dependencies import ModuleName, ServicesOf
from app.api.openapi import json_body, problems
from app.api.v1.module_views import shown
from app.api.v1.views import ModuleView
from app.domain.serving import ServingSpec

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}", tags=["predict"])


@router.get("/serving", summary="Describe a module's serving", responses=problems(404, 422))
async def get_serving(module: ModuleName, services: ServicesOf) -> ServingSpec:
    """Return the settings, including defaults."""
    return (await services.access.record(module)).serving


@router.patch(
    "/serving",
    summary="Change a module's serving",
    openapi_extra=json_body(ServingSpec, {"max_batch_size": 32, "max_delay_us": 500}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def set_serving(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Change the given fields, for all later predictions.

    Requests that are waiting when the device becomes free are computed as one batch, up to
    `max_batch_size` examples, if analysis of the graph shows that the outputs for an example do not
    depend on the others in its batch; `batches` declares that if analysis cannot show it.
    `max_delay_us` makes requests wait for more, which helps if each batch has a high fixed cost and
    requests come from many clients.

    `instances` is the number of executors that answer predictions of versions (the promoted one, a
    canary, those that are named); the one with the fewest examples under way is chosen. The
    parameters in training are only on the module's own executor. A sequence stays on the instance
    of its first part. An instance is used once it has the version and is warmed up; the module's
    `instances` show which are. 422 if this server has fewer executors of the kind
    (`MODSERVE_DEVICES`).

    `states` names the output that is the next value of each of the module's `state_names`; with it
    predictions may be parts of sequences, whose states are kept between them. Each instance keeps
    at most `max_sequences`, and drops those that are idle for `max_sequence_idle_seconds`.
    """
    change = await read_change(request, ServingSpec)
    return await shown(services, await services.access.serve(module, change))


@router.post(
    "/warm_up",
    status_code=204,
    summary="Warm a module up",
    responses=problems(404, 409, 422, 503, 507),
    dependencies=IF_MATCH,
)
async def warm_up_module(module: ModuleName, services: ServicesOf) -> None:
    """Bind all buckets for batches of each power of two, up to the largest batch of predictions.
    Otherwise the first prediction of each size waits for that. Other predictions are answered
    meanwhile.
    """
    await services.commands.warm_up(module)
