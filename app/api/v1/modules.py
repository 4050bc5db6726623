"""Modules: created, bound, listed and deleted."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from app.api.bodies import read_module_body, read_object
from app.api.conditional import IF_MATCH
from app.api.dependencies import (
    Cursor,
    IdempotencyKey,
    Limit,
    ModuleName,
    ServicesOf,
    tell_replay,
)
from app.api.filters import ALL, ExecutorNames, ModuleKinds, ModuleStates, Prefix, Stages
from app.api.forms import closed_beside_the_loop, is_form
from app.api.openapi import json_body, problems
from app.api.v1.archive_uploads import create_from_archive
from app.api.v1.fact_views import Symbol
from app.api.v1.finding_views import findings_view
from app.api.v1.module_forms import archive_fields, module_form, read_any_form, read_module_form
from app.api.v1.module_views import shown, shown_all
from app.api.v1.requests import BucketBody, ModuleBody
from app.api.v1.views import ModuleView, PageView
from app.domain.module import SINGLE, BindSpec, BucketShapes, ModuleKind, ModuleRecord, require
from app.errors.tree import NotFound
from app.services.access.idempotency import begin_replay
from app.services.modules.modules import ModuleFilter
from app.services.modules.upload_findings import Findings
from app.services.services import Services

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules", tags=["modules"])

_SYMBOL = {
    "nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "fc_weight", "attrs": {"num_hidden": "10"}, "inputs": []},
        {"op": "null", "name": "fc_bias", "attrs": {"num_hidden": "10"}, "inputs": []},
        {
            "op": "FullyConnected",
            "name": "fc",
            "attrs": {"num_hidden": "10"},
            "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]],
        },
        {"op": "null", "name": "softmax_label", "inputs": []},
        {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[3, 0, 0], [4, 0, 0]]},
    ],
    "arg_nodes": [0, 1, 2, 4],
    "heads": [[5, 0, 0]],
}
_BIND = {
    "data_shapes": [{"name": "data", "shape": [64, 784]}],
    "label_shapes": [{"name": "softmax_label", "shape": [64]}],
}


@router.get("", summary="List modules", responses=problems(422))
async def list_modules(
    services: ServicesOf,
    kind: ModuleKinds = ALL,
    stage: Stages = ALL,
    state: ModuleStates = ALL,
    executor: ExecutorNames = ALL,
    prefix: Prefix = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> PageView[ModuleView]:
    """Return a page of modules, by name."""
    for name in executor:
        services.executors.check(name, "executor")
    wanted = ModuleFilter(kinds=kind, stages=stage, states=state, executors=executor, prefix=prefix)
    page = await asyncio.to_thread(services.modules.list_modules, cursor, limit, wanted)
    visible = [one for one in page.items if services.access.is_visible(one)]
    return PageView(items=await shown_all(services, visible), next_cursor=page.next_cursor)


@router.post(
    "",
    status_code=201,
    summary="Create a module",
    openapi_extra=json_body(
        ModuleBody, {"name": "linear", "symbol": _SYMBOL}, other_forms=module_form()
    ),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
)
async def create_module(
    request: Request,
    response: Response,
    services: ServicesOf,
    idempotency_key: IdempotencyKey = None,
) -> ModuleView:
    """Create a module from its symbol, from a symbol per bucket key, or `from` another module.

    In the last case it begins with the parameters of that module's checkpoint. To fine-tune a model
    for another task, name an internal `output` at which to cut the symbol and the `head` to append
    there, and fix the parameters below it by `fixed_param_patterns`.

    A form has these as files (`symbol`; for buckets a `symbols[KEY]` each, or several `symbol`
    files named like `net-10-symbol.json`), and optionally `params` and `states` of a checkpoint
    written by MXNet. The parameters are loaded at once, the states by `load` after an optimizer was
    installed. Fields with lists are repeated.

    `outputs` names outputs of operators in the symbol, if it is to compute only these; the rest,
    such as a head for training with operators that are not known here, is cut off.

    If not given, the variables that are data, labels and states are inferred, and, with parameters,
    matching shapes; the answer's `found` shows the result, and the module's `warnings` list
    problems until they are resolved. Parameters that the symbol does not have are skipped with a
    warning, unless `allow_extra` is false.

    A form may have an `archive` instead, of mxnet-model-server (`.mar`, `.model`) or SageMaker
    (`model.tar.gz`), whose signature or `model-shapes.json` determines how the module is bound and
    whose `synset.txt` labels its classes. The Python code in it is never run; the answer's
    `archive` says how each file was used.
    """
    replay = begin_replay()
    if is_form(request):
        record, findings = await _create_from_form(request, services, idempotency_key)
    else:
        body = await read_module_body(request)
        record, findings = await _create_from_body(body, services, idempotency_key)
    response.headers["Location"] = f"/v1/modules/{record.name}"
    response.headers["ETag"] = record.etag
    tell_replay(response, replay)
    view = await shown(services, record)
    return view if findings is None else view.model_copy(update={"found": findings_view(findings)})


async def _create_from_body(
    body: ModuleBody, services: Services, idempotency_key: str | None
) -> tuple[ModuleRecord, Findings | None]:
    executor = services.executors.names[0]
    if body.source is None:
        body = await asyncio.to_thread(body.cut_to_outputs)
        record = body.to_record(executor)
        findings = await services.commands.inspect(record, body.given_names)
        record = record if findings is None else findings.named(record, body.given_names)
        return await services.commands.create(record, idempotency_key), findings
    body.check_derived()
    derived = await services.commands.derive(
        body.source.module, body.source.tag, body.output, body.head
    )
    record = body.to_derived(derived, executor)
    return await services.commands.create_derived(record, idempotency_key), None


async def _create_from_form(
    request: Request, services: Services, idempotency_key: str | None
) -> tuple[ModuleRecord, Findings | None]:
    async with closed_beside_the_loop(services.checkpoints.begin_whole()) as files:
        form = await read_any_form(request, files)
        archive = await asyncio.to_thread(files.archive)
        if archive is not None:
            fields = archive_fields(form)
            made = create_from_archive(request, services, archive, fields, idempotency_key)
            return await made, None
        body, tag, allow_extra = await read_module_form(request, form, files)
        body = await asyncio.to_thread(body.cut_to_outputs)
        record = body.to_record(services.executors.names[0])
        params = await asyncio.to_thread(files.params)
        findings = await services.commands.inspect(record, body.given_names, params)
        if findings is not None:
            findings.check_missing()
            record = findings.named(record, body.given_names, tag)
        if tag is None:
            return await services.commands.create(record, idempotency_key), findings
        created = await services.commands.create_from_files(
            record, tag, files, allow_extra=allow_extra, idempotency_key=idempotency_key
        )
        return created, findings


@router.get("/{module}", summary="Describe a module", responses=problems(404, 422))
async def get_module(module: ModuleName, response: Response, services: ServicesOf) -> ModuleView:
    """Return a module, with its executor's view while it is on its device."""
    record, live = await services.commands.describe(module)
    response.headers["ETag"] = record.etag
    return await shown(services, record, live)


@router.post(
    "/{module}/restore",
    summary="Bring a module to its device",
    responses=problems(404, 409, 422, 503, 507),
    dependencies=IF_MATCH,
)
async def restore_module(module: ModuleName, services: ServicesOf) -> ModuleView:
    """Bring a module to its device now: before its first call, or again after it failed.

    A module is restored automatically when it is first called. One whose restore has ended the
    executor's process twice, or that has no intact checkpoint left, is `failed` until this is
    called.
    """
    return await shown(services, await services.commands.restore(module))


@router.get(
    "/{module}/symbol",
    summary="Fetch a module's symbol",
    response_class=JSONResponse,
    responses={200: {"model": Symbol, "description": "The graph"}, **problems(404, 422)},
)
def get_module_symbol(
    module: ModuleName,
    services: ServicesOf,
    key: Annotated[
        str | None, Query(description="Key of a bucket; by default the default bucket's.")
    ] = None,
) -> Response:
    """Return the symbol JSON, of the default bucket unless a key is given."""
    record = services.modules.get(module)
    chosen = record.default_bucket_key if key is None else key
    if chosen not in record.symbols:
        keys = [one for one in record.symbols if one != SINGLE]
        there = f"there are {', '.join(keys)}" if keys else "the module has none; leave key out"
        raise NotFound("bucket", chosen, there)
    text = record.symbols[chosen]
    etag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    return Response(text, media_type="application/json", headers={"ETag": etag})


@router.delete(
    "/{module}",
    status_code=204,
    summary="Delete a module",
    responses=problems(404, 409, 412, 422),
    dependencies=IF_MATCH,
)
async def delete_module(module: ModuleName, services: ServicesOf) -> None:
    """Delete a module with its finished jobs and all its checkpoints."""
    await services.commands.delete(module)
    services.statistics.forget(module)


@router.post(
    "/{module}/bind",
    summary="Bind a module",
    openapi_extra=json_body(BindSpec, _BIND),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def bind_module(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Give a module shapes and memory, or bind it again; its parameters are kept.

    Inputs whose shapes follow from the parameters may be omitted, even all of them; a bound module
    keeps the shapes of omitted inputs.
    """
    spec = await read_object(request, BindSpec)
    return await shown(services, await services.commands.bind(module, spec))


@router.post(
    "/{module}/reshape",
    summary="Change the input shapes",
    openapi_extra=json_body(BucketShapes, _BIND),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def reshape_module(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Change the input shapes of a bound module; parameters and optimizer are kept."""
    shapes = await read_object(request, BucketShapes)
    return await shown(services, await services.commands.reshape(module, shapes))


@router.get("/{module}/buckets", summary="List bound buckets", responses=problems(404, 409, 422))
def list_buckets(module: ModuleName, services: ServicesOf) -> PageView[str]:
    """Return the keys of the bound buckets, the default one's first; a module without buckets has
    none.
    """
    record = services.modules.get(module)
    require(record, "bind_bucket")
    assert record.bind is not None
    if record.kind is not ModuleKind.BUCKETING:
        return PageView(items=[])
    return PageView(items=[record.default_bucket_key, *record.bind.buckets])


@router.post(
    "/{module}/buckets",
    summary="Bind a bucket",
    openapi_extra=json_body(
        BucketBody, {"key": "20", "data_shapes": [{"name": "data", "shape": [32, 20]}]}
    ),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def bind_bucket(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Bind another bucket of a bucketing module, before it is first needed."""
    body = await read_object(request, BucketBody)
    shapes = BucketShapes(data_shapes=body.data_shapes, label_shapes=body.label_shapes)
    return await shown(services, await services.commands.bind_bucket(module, body.key, shapes))
