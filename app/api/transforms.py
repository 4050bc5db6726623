"""How images become the inputs of a module."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from app.api.bodies import read_object
from app.api.conditional import IF_MATCH
from app.api.dependencies import ModuleName, ServicesOf
from app.api.module_views import shown
from app.api.openapi import json_body, problems
from app.api.views import ModuleView
from app.domain.transforms import ImageTransform, check_transform
from app.errors import NotFound

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}/transforms", tags=["predict"])

InputName = Annotated[str, Path(max_length=200, description="Name of an input.", examples=["data"])]
_EXAMPLE = {"resize": 256, "crop": [224, 224], "mean": [123.68, 116.779, 103.939]}


@router.put(
    "/{input}",
    summary="Set an input's transform",
    openapi_extra=json_body(ImageTransform, _EXAMPLE),
    responses=problems(400, 404, 409, 413, 415, 422),
    dependencies=IF_MATCH,
)
async def set_transform(
    module: ModuleName, input: InputName, request: Request, services: ServicesOf
) -> ModuleView:
    """Say how an image becomes this input, so that `predict` takes images as they are.

    It is resized, cropped in the middle, normalized by `mean` and `std` in units of pixels, and
    laid out, with the numbers of `mx.image`. Predictions whose body is an image
    (`Content-Type: image/jpeg`), or a form with a file for each example, go through it.
    """
    transform = await read_object(request, ImageTransform)
    check_transform(transform, "transform")
    record = await services.access.record(module)
    if input not in record.data_names:
        raise NotFound("input", input, f"the module has {', '.join(record.data_names)}")
    return await shown(services, await services.access.set_transform(module, input, transform))


@router.delete(
    "/{input}",
    status_code=204,
    summary="Remove an input's transform",
    responses=problems(404, 409, 422),
    dependencies=IF_MATCH,
)
async def delete_transform(module: ModuleName, input: InputName, services: ServicesOf) -> None:
    """Remove the transform of an input, if it has one."""
    await services.access.set_transform(module, input, None)
