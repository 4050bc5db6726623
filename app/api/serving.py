"""How predictions of a module are served."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.api.bodies import read_change
from app.api.conditional import IF_MATCH
from app.api.dependencies import ModuleName, ServicesOf
from app.api.module_views import shown
from app.api.openapi import json_body, problems
from app.api.views import ModuleView
from app.domain.serving import ServingSpec

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}", tags=["predict"])


@router.get("/serving", summary="Describe a module's serving", responses=problems(404, 422))
async def get_serving(module: ModuleName, services: ServicesOf) -> ServingSpec:
    """Return what was set, and the defaults of the rest."""
    return (await services.access.record(module)).serving


@router.patch(
    "/serving",
    summary="Change a module's serving",
    openapi_extra=json_body(ServingSpec, {"max_batch_size": 32, "max_delay_us": 500}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def set_serving(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Change the fields that are given, for predictions that are asked for from here on.

    Requests that wait when the device is free are computed together, up to `max_batch_size`
    examples, where the outputs for an example are found not to depend on the others in its batch;
    `batches` declares it where that cannot be found. `max_delay_us` lets them wait for more, which
    helps where each batch has a high cost of its own and requests come from many clients.

    `instances` is the number of executors that answer predictions of versions (the promoted one, a
    canary, those that are named), the one with the fewest examples under way first. The parameters
    in training are at home alone. A sequence stays on the instance of its first part. Each is
    asked when it has the version and is warm; the module's `instances` tell which are. 422 where
    this server has fewer executors of the kind (`MODSERVE_DEVICES`).

    `states` says which output is the next value of each of the module's `state_names`; with it
    predictions may be parts of sequences, whose states are kept between them. On each instance
    there are `max_sequences` at most, and those idle for `max_sequence_idle_seconds` are lost.
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
    """Bind all buckets for batches of each power of two, as far as predictions take them together.

    Without it the first prediction of each size waits for that. Others are answered meanwhile.
    """
    await services.commands.warm_up(module)
