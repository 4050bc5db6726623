"""Folders of images as datasets."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Query, Request, Response

from app.api.bodies import announced_bytes
from app.api.conditional import IF_MATCH
from app.api.dependencies import DatasetName, ServicesOf
from app.api.offload import make_beside
from app.api.openapi import problems, raw_body
from app.api.v1.views import DatasetView, dataset_view
from app.domain.codec import to_plain
from app.domain.image_packing import Packing
from app.domain.names import NAME_PATTERN
from app.domain.transforms import ImageTransform, missing_size, parse_transform
from app.errors.tree import Invalid
from app.services.services import Services
from app.settings import Settings

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

_BODY = "A zip, tar or tar.gz file with the images, or a RecordIO file that im2rec made."
_ArrayName: TypeAlias = Annotated[
    str | None,
    Query(
        pattern=f"^{NAME_PATTERN}$",
        description="Name of the array; by default `module`'s, else MXNet's.",
    ),
]


async def _transform_said(
    size: Annotated[
        str | None, Query(description="Height and width, such as 224 or 224,320.", examples=["224"])
    ] = None,
    resize: Annotated[str | None, Query(description="Length of the shorter side.")] = None,
    crop: Annotated[
        str | None, Query(description="Height and width of the center crop, in the form of `size`.")
    ] = None,
    interpolation: Annotated[
        str | None, Query(description="Interpolation, as in a transform.")
    ] = None,
    color: Annotated[str | None, Query(description="rgb, bgr or gray.")] = None,
    mean: Annotated[str | None, Query(description="One, or with commas three.")] = None,
    std: Annotated[
        str | None, Query(description="One number, or three separated by commas.")
    ] = None,
    layout: Annotated[str | None, Query(description="NCHW or NHWC.")] = None,
) -> dict[str, Any]:
    """Return the fields of a transform that the query gives."""
    said = {
        "size": _sides("size", size),
        "resize": None if resize is None else _sides("resize", resize)[0],
        "crop": _sides("crop", crop),
        "interpolation": interpolation,
        "color": color,
        "mean": _numbers("mean", mean),
        "std": _numbers("std", std),
        "layout": layout,
    }
    return {name: value for name, value in said.items() if value is not None}


@router.put(
    "/{dataset}/images",
    summary="Upload a folder of images",
    openapi_extra=raw_body(_BODY),
    responses=problems(404, 409, 413, 422, 503),
    dependencies=IF_MATCH,
)
async def put_images(
    dataset: DatasetName,
    request: Request,
    response: Response,
    services: ServicesOf,
    said: Annotated[dict[str, Any], Depends(_transform_said)],
    module: Annotated[
        str | None,
        Query(
            description="A module whose image transform and input names are used "
            "instead of all these parameters."
        ),
    ] = None,
    classes_of: Annotated[
        str | None, Query(description="A dataset whose classes are used for this one, too.")
    ] = None,
    data_name: _ArrayName = None,
    label_name: _ArrayName = None,
) -> DatasetView:
    """Make a dataset from images: all of one size, and labelled by their folders.

    They are decoded once, now, and stored as uint8, or as float32 if `mean` or `std` is given.
    Folders are classes, numbered in sorted order; a RecordIO file contains its labels. A fit
    on the dataset names the classes of the module's output that has as many, unless it has labels.
    All broken images are named in one answer.
    """
    names = ["data", "softmax_label"]
    if module is None:
        is_uint8 = "mean" not in said and "std" not in said
        transform = parse_transform(said | {"dtype": "uint8" if is_uint8 else "float32"}, "")
        assert isinstance(transform, ImageTransform)
    elif said:
        raise Invalid(
            *next(iter(said.items())), expected="none, because the module's transform is used"
        )
    else:
        transform, *names = await _of_module(services, module)
    settings: Settings = request.app.state.settings
    packing = Packing(
        transform=transform,
        data_name=data_name or names[0],
        label_name=label_name or names[1],
        classes=await _classes_of(services, classes_of),
        most_pixels=settings.max_image_pixels,
        limit=settings.max_dataset_bytes,
    )
    packing.example_shape()  # refuses a transform without a size before any of the body is read
    if packing.data_name == packing.label_name:
        raise Invalid("label_name", packing.label_name, "another name than that of the images")

    def pack(source: Path, write: Callable[[bytes], None]) -> None:
        work = {"source": str(source), "packing": to_plain(packing)}
        make_beside("images", work, settings.decoder_memory_bytes, write)

    size = announced_bytes(request)
    record = await services.datasets.put_images(dataset, request.stream(), pack, size)
    response.headers["ETag"] = record.etag
    return dataset_view(record)


async def _of_module(services: Services, module: str) -> tuple[ImageTransform, str, str]:
    """Return a module's image transform, and the names of its input and label."""
    record = await services.access.record(module)
    transforms = record.transforms.items()
    found = [(name, one) for name, one in transforms if isinstance(one, ImageTransform)]
    if len(found) != 1:
        got = f"{module}, {len(found)} of whose inputs have an image transform"
        hint = f"set it by PUT /v1/modules/{module}/transforms/{record.data_names[0]}"
        raise Invalid("module", got, "a module with one such input", hint)
    ((name, transform),) = found
    bound = record.bind.data_shapes if record.bind is not None else ()
    shape = next((one.shape for one in bound if one.name == name), ())
    if shape or transform.crop is None:
        transform = dataclasses.replace(transform, size=missing_size(transform, name, shape))
    label = record.label_names[0] if len(record.label_names) == 1 else "softmax_label"
    return transform, name, label


async def _classes_of(services: Services, dataset: str | None) -> tuple[str, ...] | None:
    if dataset is None:
        return None
    record = await asyncio.to_thread(services.datasets.get, dataset)
    if not record.classes:
        raise Invalid("classes_of", dataset, "a dataset of images in folders")
    return record.classes


def _sides(field: str, text: str | None) -> Any:
    """Return height and width; one number is both."""
    values = _numbers(field, text)
    if values is None:
        return None
    if len(values) > 2 or not all(isinstance(one, int) for one in values):
        raise Invalid(field, text, "a whole number, or two: height,width")
    return values * 2 if len(values) == 1 else values


def _numbers(field: str, text: str | None) -> list[Any] | None:
    if text is None:
        return None
    try:
        values = json.loads(f"[{text}]")
    except ValueError:
        values = []
    if not values or not all(type(one) in (int, float) for one in values):
        raise Invalid(field, text, "a number, or several with commas between")
    return list(values)
