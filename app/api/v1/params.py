"""Parameters and the optimizer."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from app.api.bodies import read_body, read_object
from app.api.conditional import IF_MATCH
from app.api.contents import content_response
from app.api.dependencies import ModuleName, ServicesOf
from app.api.openapi import json_body, problems, raw_body, tensor_body
from app.api.openapi_answers import BINARY, tensor_answer
from app.api.v1.fact_views import OptimizerView
from app.api.v1.module_views import shown
from app.api.v1.requests import LearningRateBody
from app.api.v1.tensor_io import NoFields, answer, read_tensors
from app.api.v1.views import ModuleView
from app.domain.codec import from_plain
from app.domain.module import InitSpec, OptimizerSpec
from app.link import calls
from app.tensors.content import Content

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}", tags=["parameters"])

_STATES_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The `.states` file",
        "content": {"application/octet-stream": BINARY},
    }
}
_KINDS = {
    name: {"type": "array", "items": {"type": "string"}, "description": text}
    for name, text in (
        ("arguments", "Names of those that are trained, or fixed."),
        ("auxiliary", "Names of auxiliary states, such as moving averages."),
    )
}
AllowMissing = Annotated[
    bool, Query(description="Accept missing parameters, which keep their values.")
]
AllowExtra = Annotated[bool, Query(description="Skip parameters that the module does not have.")]
AllowNonfinite = Annotated[bool, Query(description="Accept NaN and infinity.")]


@router.post(
    "/params/init",
    summary="Initialize the parameters",
    openapi_extra=json_body(InitSpec, {"initializer": "xavier", "seed": 1}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def init_params(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Set all parameters to initial values.

    With a `seed` the module is `durable`: the same values are computed again after a restart.
    Without one they are only in memory until a checkpoint is saved, and are lost with the executor.
    """
    spec = await read_object(request, InitSpec)
    return await shown(services, await services.commands.init_params(module, spec))


@router.get(
    "/params",
    summary="Fetch the parameters",
    responses={**tensor_answer("params", _KINDS), **problems(404, 409, 422, 503)},
)
async def get_params(
    module: ModuleName,
    request: Request,
    services: ServicesOf,
    name: Annotated[list[str] | None, Query(description="Only these; all by default.")] = None,
) -> Response:
    """Return parameters and auxiliary states; request npz or safetensors if they are large."""
    call = calls.GetParams(module=module, names=tuple(name) if name else None)
    reply = await services.access.ask_at(module, "get_params", call)
    return await answer(request, reply, "params", reply.result)


@router.put(
    "/params",
    summary="Set parameters",
    openapi_extra=tensor_body({"inputs": {"fc_bias": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def set_params(
    module: ModuleName,
    request: Request,
    services: ServicesOf,
    allow_missing: AllowMissing = False,
    allow_extra: AllowExtra = False,
    allow_nonfinite: AllowNonfinite = False,
) -> ModuleView:
    """Set parameters by name. With `allow_missing` those not given keep their values.

    They are only in memory (`durable` is false) until a checkpoint is saved. If the executor dies
    before that, calls that need parameters are refused with 409 `params_lost`.
    """
    tensors, rest = await read_tensors(request, ())
    from_plain(NoFields, rest)
    options = {
        "allow_missing": allow_missing,
        "allow_extra": allow_extra,
        "allow_nonfinite": allow_nonfinite,
    }
    return await shown(services, await services.commands.set_params(module, tensors, options))


@router.get(
    "/params/{parameter}",
    summary="Fetch one parameter",
    responses={**tensor_answer("params", _KINDS), **problems(404, 409, 422, 503)},
)
async def get_param(
    module: ModuleName,
    parameter: Annotated[str, Path(description="Name of the parameter.", examples=["fc_weight"])],
    request: Request,
    services: ServicesOf,
) -> Response:
    """Return one parameter, as npy or JSON."""
    call = calls.GetParams(module=module, names=(parameter,))
    reply = await services.access.ask_at(module, "get_params", call)
    return await answer(request, reply, "params")


@router.post(
    "/optimizer",
    summary="Install an optimizer",
    openapi_extra=json_body(
        OptimizerSpec, {"name": "sgd", "options": {"learning_rate": 0.1, "momentum": 0.9}}
    ),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def init_optimizer(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Install an optimizer, replacing an existing one.

    After a restart it starts from scratch, unless a checkpoint with its states was saved since.
    """
    spec = await read_object(request, OptimizerSpec)
    return await shown(services, await services.commands.init_optimizer(module, spec))


@router.get("/optimizer", summary="Describe the optimizer", responses=problems(404, 409, 422, 503))
async def get_optimizer(module: ModuleName, services: ServicesOf) -> OptimizerView:
    """Return name, options, current learning rate and number of updates."""
    reply = await services.access.ask_at(module, "get_optimizer", calls.GetOptimizer(module=module))
    reply.release()
    return OptimizerView(**reply.result)


@router.patch(
    "/optimizer",
    summary="Change the learning rate",
    openapi_extra=json_body(LearningRateBody, {"learning_rate": 0.01}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def set_learning_rate(
    module: ModuleName, request: Request, services: ServicesOf
) -> ModuleView:
    """Set the learning rate; refused if a scheduler determines it."""
    body = await read_object(request, LearningRateBody)
    return await shown(
        services, await services.commands.set_learning_rate(module, body.learning_rate)
    )


@router.get(
    "/optimizer/states",
    summary="Fetch the optimizer's states",
    response_class=Response,
    responses={**_STATES_FILE, **problems(404, 409, 422, 503)},
)
async def get_optimizer_states(module: ModuleName, services: ServicesOf) -> Response:
    """Return the states in MXNet's `.states` form."""
    call = calls.GetOptimizerStates(module=module)
    reply = await services.access.ask_at(module, "optimizer_states", call)
    states = reply.tensors["states"]
    make, kind = partial(Content.of, [states]), "application/octet-stream"
    return await content_response(make, states.nbytes, kind, reply.release)


@router.put(
    "/optimizer/states",
    status_code=204,
    summary="Set the optimizer's states",
    openapi_extra=raw_body("A `.states` file of MXNet or of this server."),
    responses=problems(404, 409, 413, 422, 503),
    dependencies=IF_MATCH,
)
async def set_optimizer_states(module: ModuleName, request: Request, services: ServicesOf) -> None:
    """Load states written by MXNet or this server.

    Until a checkpoint is saved they are only in memory, and the module is not `durable`.
    """
    await services.commands.set_optimizer_states(module, await read_body(request))
