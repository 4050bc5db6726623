"""Checkpoints: saved, listed, fetched, uploaded, loaded and deleted."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse

from app.api.bodies import announced_bytes, read_object
from app.api.conditional import IF_MATCH
from app.api.dependencies import Cursor, Limit, ModuleName, ServicesOf
from app.api.filters import ALL, CreatedAfter, CreatedBefore, JobIds, seconds_of
from app.api.forms import closed_beside_the_loop, is_form
from app.api.offload import make_beside
from app.api.open_file import OpenFileResponse
from app.api.openapi import json_body, problems, raw_body
from app.api.openapi_answers import file_answer
from app.api.v1.module_forms import checkpoint_form, read_checkpoint_form
from app.api.v1.module_views import shown
from app.api.v1.requests import CheckpointBody, LoadBody
from app.api.v1.views import CheckpointView, ModuleView, PageView, checkpoint_view
from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.codec import to_plain
from app.domain.names import FILE_PATTERN
from app.domain.onnx_request import OnnxRequest
from app.services.access.preconditions import check_etag
from app.services.modules.checkpoint_exports import export_onnx
from app.services.modules.checkpoints import CheckpointFilter
from app.services.services import Services
from app.settings import Settings

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}", tags=["checkpoints"])

Epoch = Annotated[str, Path(description="Tag of a checkpoint: `12`, or `12.340` within an epoch.")]
FileName = Annotated[
    str, Path(pattern=f"^{FILE_PATTERN}$", description="Name of a file of the checkpoint.")
]


@router.post(
    "/checkpoints",
    status_code=201,
    summary="Save a checkpoint",
    openapi_extra=json_body(CheckpointBody, {"epoch": 12}, other_forms=checkpoint_form()),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def save_checkpoint(
    module: ModuleName, request: Request, response: Response, services: ServicesOf
) -> CheckpointView:
    """Save the current parameters, optimizer states and random state.

    The module is then `durable`: it is restored from this checkpoint if its executor dies. Without
    `optimizer_states` its optimizer then starts from scratch.

    A form adds a checkpoint written by MXNet instead, and replaces one of the same tag: `params`,
    and optionally `symbol` and `states`; `load` loads it.
    """
    if is_form(request):
        manifest = await _add_from_form(module, request, services)
    else:
        body = await read_object(request, CheckpointBody)
        manifest = await services.commands.save_checkpoint(
            module, body.epoch, body.optimizer_states
        )
    response.headers["Location"] = f"/v1/modules/{module}/checkpoints/{manifest.tag}"
    return checkpoint_view(manifest)


async def _add_from_form(module: str, request: Request, services: Services) -> CheckpointManifest:
    record = await services.access.record(module)
    check_etag(f"module {module!r}", record.etag)
    async with closed_beside_the_loop(services.checkpoints.begin_whole()) as files:
        tag = await read_checkpoint_form(request, files)
        add = services.checkpoints.add_files
        return await asyncio.to_thread(add, module, tag, files.files, is_whole=True)


@router.get("/checkpoints", summary="List checkpoints", responses=problems(404, 422))
def list_checkpoints(
    module: ModuleName,
    services: ServicesOf,
    job: JobIds = ALL,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> PageView[CheckpointView]:
    """Return a page of a module's checkpoints, the latest in training first."""
    wanted = CheckpointFilter(
        job_ids=job,
        created_after=seconds_of(created_after),
        created_before=seconds_of(created_before),
    )
    page = services.checkpoints.list_checkpoints(module, cursor, limit, wanted)
    items = [checkpoint_view(one) for one in page.items]
    return PageView(items=items, next_cursor=page.next_cursor)


@router.get("/checkpoints/{epoch}", summary="Describe a checkpoint", responses=problems(404, 422))
def get_checkpoint(
    module: ModuleName, epoch: Epoch, response: Response, services: ServicesOf
) -> CheckpointView:
    """Return a checkpoint: its files with their digests, and the metrics at that time."""
    manifest = services.checkpoints.get(module, CheckpointTag.parse(epoch))
    response.headers["ETag"] = manifest.etag
    return checkpoint_view(manifest)


@router.delete(
    "/checkpoints/{epoch}",
    status_code=204,
    summary="Delete a checkpoint",
    responses=problems(404, 409, 422),
    dependencies=IF_MATCH,
)
def delete_checkpoint(module: ModuleName, epoch: Epoch, services: ServicesOf) -> None:
    """Delete a checkpoint."""
    services.checkpoints.delete(module, CheckpointTag.parse(epoch))


@router.get(
    "/checkpoints/{epoch}/files/{file}",
    summary="Fetch a file",
    response_class=FileResponse,
    responses={**file_answer("The file"), **problems(404, 416, 422)},
)
def get_checkpoint_file(
    module: ModuleName, epoch: Epoch, file: FileName, services: ServicesOf
) -> OpenFileResponse:
    """Return a file of a checkpoint in MXNet's format; HEAD returns only the header fields."""
    return OpenFileResponse(
        services.checkpoints.open_file(module, CheckpointTag.parse(epoch), file), file
    )


@router.get(
    "/checkpoints/{epoch}/onnx",
    summary="Fetch a checkpoint as an ONNX model",
    response_class=FileResponse,
    responses={**file_answer("The model"), **problems(404, 409, 413, 416, 422, 503)},
)
async def get_onnx(
    module: ModuleName, epoch: Epoch, request: Request, services: ServicesOf
) -> OpenFileResponse:
    """Return symbol and parameters of a checkpoint as an ONNX model, with the inputs of `bind`.

    It accepts any batch size if the symbol does. `X-Onnx-Notes` lists differences from the module,
    such as outputs that need a label. 422 names the node and operator that ONNX cannot express.
    """
    tag = CheckpointTag.parse(epoch)
    record = await services.access.record(module)
    settings: Settings = request.app.state.settings

    def make(wanted: OnnxRequest, write: Callable[[bytes], object]) -> list[str]:
        memory = settings.decoder_memory_bytes + 4 * os.stat(wanted.params).st_size
        return make_beside("onnx", to_plain(wanted), memory, write)

    export = partial(export_onnx, services.checkpoints, record, tag, make)
    model, notes = await asyncio.to_thread(export)
    headers = {"X-Onnx-Notes": json.dumps(notes)} if notes else {}
    return OpenFileResponse(model, f"{record.public_name}-{tag}.onnx", headers)


@router.put(
    "/checkpoints/{epoch}/files/{file}",
    summary="Upload a file of a foreign checkpoint",
    openapi_extra=raw_body("A `-symbol.json`, `.params` or `.states` file."),
    responses=problems(404, 409, 413, 422),
    dependencies=IF_MATCH,
)
async def put_checkpoint_file(
    module: ModuleName, epoch: Epoch, file: FileName, request: Request, services: ServicesOf
) -> CheckpointView:
    """Upload one file of a checkpoint written by MXNet; `load` loads it."""
    tag = CheckpointTag.parse(epoch)
    size = announced_bytes(request)
    return checkpoint_view(
        await services.checkpoints.upload(module, tag, file, request.stream(), size)
    )


@router.post(
    "/load",
    summary="Load a checkpoint",
    openapi_extra=json_body(LoadBody, {"epoch": 12, "optimizer_states": True}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def load_checkpoint(module: ModuleName, request: Request, services: ServicesOf) -> ModuleView:
    """Load the parameters of a checkpoint, and optionally the optimizer's states.

    A checkpoint from elsewhere may have more or fewer parameters than the module if `allow_extra`
    or `allow_missing` is set; after `allow_missing` the module is not `durable` until it is saved.
    """
    body = await read_object(request, LoadBody)
    tag = CheckpointTag.parse(body.epoch)
    services.checkpoints.get(module, tag)
    return await shown(
        services, await services.commands.load_checkpoint(module, tag, body.options())
    )
