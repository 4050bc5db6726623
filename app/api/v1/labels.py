"""The labels of a module's outputs."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request

from app.api.bodies import read_body
from app.api.conditional import IF_MATCH
from app.api.dependencies import ModuleName, ServicesOf
from app.api.openapi import problems
from app.api.v1.module_views import shown
from app.api.v1.views import ModuleView
from app.domain.labels import check_labels, parse_labels
from app.domain.module import ModuleRecord
from app.errors.tree import Invalid, NotFound
from app.link import calls
from app.services.services import Services
from app.tensors.codec import JSON, media_type
from app.tensors.json_bodies import parse_json

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}/labels", tags=["predict"])

OutputName = Annotated[
    str, Path(max_length=200, description="Name of an output.", examples=["softmax_output"])
]
_LINES = {"schema": {"type": "string"}, "example": "cat\ndog\n"}
_LIST = {
    "schema": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "example": ["cat", "dog"],
}
_BODY = {"requestBody": {"required": True, "content": {"text/plain": _LINES, JSON: _LIST}}}


@router.get("/{output}", summary="Fetch an output's labels", responses=problems(404, 422))
async def get_labels(module: ModuleName, output: OutputName, services: ServicesOf) -> list[str]:
    """Return the labels of an output's classes, in order."""
    record = await services.access.record(module)
    if output not in record.labels:
        others = f"those of {', '.join(record.labels)} are" if record.labels else "none are"
        hint = f"{others} set; PUT /v1/modules/{module}/labels/{output} sets them"
        raise NotFound("list of labels of output", output, hint)
    return list(record.labels[output])


@router.put(
    "/{output}",
    summary="Set an output's labels",
    openapi_extra=_BODY,
    responses=problems(400, 404, 409, 413, 422, 503),
    dependencies=IF_MATCH,
)
async def set_labels(
    module: ModuleName, output: OutputName, request: Request, services: ServicesOf
) -> ModuleView:
    """Set the labels of an output's classes: one per line, as in synset.txt, or a JSON list.

    `predict?top_k=5` answers with them.
    """
    labels = await _read(request)
    await _check_output(services, await services.access.record(module), output, len(labels))
    record = await services.access.label(module, output, labels)
    return await shown(services, record)


@router.delete(
    "/{output}",
    status_code=204,
    summary="Remove an output's labels",
    responses=problems(404, 409, 422),
    dependencies=IF_MATCH,
)
async def delete_labels(module: ModuleName, output: OutputName, services: ServicesOf) -> None:
    """Remove the labels of an output, if it has any."""
    await services.access.label(module, output, None)


async def _read(request: Request) -> tuple[str, ...]:
    body = await read_body(request)
    stated = request.headers.get("content-type")
    is_json = body[:1] == b"[" if not stated else media_type(stated) == JSON
    if not is_json:
        return await asyncio.to_thread(parse_labels, body)
    parsed = await asyncio.to_thread(parse_json, body)
    if not isinstance(parsed, list):
        raise Invalid("labels", parsed, "a list of texts")
    return check_labels(parsed)


async def _check_output(services: Services, record: ModuleRecord, output: str, count: int) -> None:
    """Refuse labels for anything but an output with this number of classes."""
    reply = await services.access.ask(record, calls.DescribeModule(module=record.name))
    reply.release()
    names = reply.result["output_names"]
    if output not in names:
        raise NotFound("output", output, f"the module has {', '.join(names)}")
    for row in reply.result["outputs"]:
        if row["name"] == output and len(row["shape"]) > 1 and row["shape"][-1] != count:
            expected = f"{row['shape'][-1]}, one for each class"
            raise Invalid("labels", f"{count} labels", expected)
