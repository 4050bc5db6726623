"""The repository extension: listing all models, loading and unloading them."""

from __future__ import annotations

import asyncio
import dataclasses
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.dependencies import ServicesOf
from app.api.v2.openapi import ModelName, answers, json_content, raw_request
from app.api.v2.readiness import model_states
from app.api.v2.requests import model_now, read_parameters
from app.api.v2.versions import versions_of
from app.api.v2.views import IndexRow
from app.domain.module import ModuleRecord, require
from app.errors.tree import Conflict, Invalid, Malformed
from app.services.services import Services

__all__ = ["all_models", "router"]

router = APIRouter(prefix="/v2/repository", tags=["inference protocol"])

_PAGE = 200
_INDEX = [{"name": "mlp", "version": "live", "state": "READY", "reason": ""}]


def _body(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


_INDEX_BODY = _body(ready={"type": "boolean", "description": "Return only those that can infer."})
_LOAD_BODY = _body(parameters={**_body(), "description": "No parameters are supported."})
_UNLOAD_BODY = _body(
    parameters=_body(
        unload_dependents={"type": "boolean", "description": "No model depends on another."}
    )
)


@router.post(
    "/index",
    summary="List models",
    openapi_extra=raw_request(json_content({"ready": True}, _INDEX_BODY), required=False),
    response_model=list[IndexRow],
    responses=answers(list[IndexRow], _INDEX, 400, 413, 501, 503),
)
async def get_repository_index(request: Request, services: ServicesOf) -> list[dict[str, Any]]:
    """Return all models with their states; with `ready`, only those that can answer.

    The states are `READY`, `LOADING` and `UNAVAILABLE`, the last one with a reason.
    """
    plain = await read_parameters(request, ("ready",))
    only_ready = plain.get("ready", False)
    if not isinstance(only_ready, bool):
        raise Invalid("ready", only_ready, "true or false")
    records = await asyncio.to_thread(all_models, services)
    states = await model_states(services, records)
    return [
        {
            "name": record.public_name,
            "version": version,
            **state._asdict(),
        }
        for record, state in zip(records, states, strict=True)
        for version in versions_of(record)
        if state.is_ready or not only_ready
    ]


@router.post(
    "/models/{model}/load",
    response_class=Response,
    summary="Load a model to its device",
    openapi_extra=raw_request(json_content({}, _LOAD_BODY), required=False),
    responses=answers(None, None, 400, 404, 413, 501, 503),
)
async def load_model(model: ModelName, request: Request, services: ServicesOf) -> Response:
    """Load a model to its device, and respond when it is there.

    An unloaded model answers again from then on, and a failed one is tried again. No parameters are
    supported: how a module is bound and served is set under /v1.
    """
    plain = await read_parameters(request, ("parameters",))
    if plain.get("parameters"):
        raise Invalid(
            "parameters",
            plain["parameters"],
            "none, because serving is configured by PATCH /v1/modules/{module}/serving",
        )
    record = await model_now(services, model)
    require(record, "predict")
    if not record.serving.is_loaded:
        await services.access.serve(model, partial(dataclasses.replace, is_loaded=True))
    await services.commands.restore(model)
    return Response()


@router.post(
    "/models/{model}/unload",
    response_class=Response,
    summary="Unload a model",
    openapi_extra=raw_request(
        json_content({"parameters": {"unload_dependents": False}}, _UNLOAD_BODY), required=False
    ),
    responses=answers(None, None, 400, 404, 413, 501, 503),
)
async def unload_model(model: ModelName, request: Request, services: ServicesOf) -> Response:
    """Remove a model from its device; predictions are answered 503 until it is loaded again.

    This also applies under /v1 and after a restart of the server; other calls under /v1 load the
    module to its device as usual. A model stays loaded if it has parameters that no checkpoint has,
    belongs to the models folder, or is in use by a job; the response says why. No model depends on
    another, so `unload_dependents` has no effect.
    """
    plain = await read_parameters(request, ("parameters",))
    parameters = plain.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Invalid("parameters", parameters, "an object")
    for name, value in parameters.items():
        if name != "unload_dependents" or not isinstance(value, bool):
            raise Invalid(f"parameters.{name}", value, "unload_dependents, true or false")
    await model_now(services, model)
    try:
        await services.access.serve(model, partial(dataclasses.replace, is_loaded=False))
    except Conflict as error:
        # As 400, because the protocol's clients would be told by 503, into which a 409 is turned,
        # to try again.
        raise Malformed(f"model {model!r} stays loaded: {error.message}") from error
    return Response()


def all_models(services: Services) -> list[ModuleRecord]:
    """Return the records of all models, by name, as clients see them."""
    records: list[ModuleRecord] = []
    cursor: str | None = None
    while True:
        page = services.modules.list_modules(cursor, _PAGE)
        records += filter(services.access.is_visible, page.items)
        cursor = page.next_cursor
        if cursor is None:
            return records
