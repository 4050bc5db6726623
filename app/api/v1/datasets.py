"""Datasets: uploaded as raw bodies, listed, previewed, fetched and deleted."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from app.api.bodies import announced_bytes, read_object
from app.api.conditional import IF_MATCH
from app.api.dependencies import Cursor, DatasetName, Limit, ServicesOf
from app.api.filters import (
    ALL,
    CreatedAfter,
    CreatedBefore,
    DatasetKinds,
    Prefix,
    seconds_of,
)
from app.api.open_file import OpenFileResponse
from app.api.openapi import json_body, problems, raw_body
from app.api.openapi_answers import file_answer
from app.api.v1.fact_views import PreviewView
from app.api.v1.requests import DatasetBody
from app.api.v1.views import DatasetView, PageView, dataset_view
from app.domain.dataset import DatasetKind
from app.services.modules.datasets import DatasetFilter

__all__ = ["router"]

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])


@router.get("", summary="List datasets", responses=problems(422))
def list_datasets(
    services: ServicesOf,
    kind: DatasetKinds = ALL,
    prefix: Prefix = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> PageView[DatasetView]:
    """Return a page of datasets, by name."""
    wanted = DatasetFilter(
        kinds=kind,
        prefix=prefix,
        created_after=seconds_of(created_after),
        created_before=seconds_of(created_before),
    )
    page = services.datasets.list_datasets(cursor, limit, wanted)
    return PageView(items=[dataset_view(one) for one in page.items], next_cursor=page.next_cursor)


@router.post(
    "",
    status_code=201,
    summary="Add a file on the server",
    openapi_extra=json_body(DatasetBody, {"name": "mnist", "path": "/data/mnist.npz"}),
    responses=problems(400, 409, 413, 415, 422),
)
async def add_dataset(request: Request, response: Response, services: ServicesOf) -> DatasetView:
    """Make a file on the server a dataset; it must be in a folder that the operator allows.

    Nothing is copied, and deleting the dataset leaves the file. If the file was changed since then,
    reading it fails.
    """
    body = await read_object(request, DatasetBody)
    record = await asyncio.to_thread(services.datasets.add, body.name, body.path, body.kind)
    response.headers["Location"] = f"/v1/datasets/{record.name}"
    response.headers["ETag"] = record.etag
    return dataset_view(record)


@router.put(
    "/{dataset}",
    summary="Upload a dataset",
    openapi_extra=raw_body("The file itself."),
    responses=problems(409, 413, 422),
    dependencies=IF_MATCH,
)
async def put_dataset(
    dataset: DatasetName,
    request: Request,
    response: Response,
    services: ServicesOf,
    kind: Annotated[DatasetKind, Query(description="Format of the body.")] = DatasetKind.NPZ,
) -> DatasetView:
    """Upload a file as a stream; it is checked, and replaces a dataset of the same name."""
    size = announced_bytes(request)
    record = await services.datasets.put(dataset, kind, request.stream(), size)
    response.headers["ETag"] = record.etag
    return dataset_view(record)


@router.get("/{dataset}", summary="Describe a dataset", responses=problems(404, 422))
def get_dataset(dataset: DatasetName, response: Response, services: ServicesOf) -> DatasetView:
    """Return a dataset: its arrays with shapes and dtypes, its size and digest."""
    record = services.datasets.get(dataset)
    response.headers["ETag"] = record.etag
    return dataset_view(record)


@router.get("/{dataset}/preview", summary="Preview a dataset", responses=problems(404, 422))
def preview_dataset(
    dataset: DatasetName,
    services: ServicesOf,
    rows: Annotated[int, Query(ge=1, le=100, description="Number of rows of each array.")] = 10,
) -> PreviewView:
    """Return the first rows of every array, or lines of a text."""
    return PreviewView(services.datasets.preview(dataset, rows))


@router.get(
    "/{dataset}/file",
    summary="Fetch a dataset's file",
    response_class=FileResponse,
    responses={**file_answer("The file"), **problems(404, 416, 422)},
)
def get_dataset_file(dataset: DatasetName, services: ServicesOf) -> OpenFileResponse:
    """Return the file as it was uploaded; for images, the npz file made from them. HEAD returns
    only the header fields.
    """
    record, file = services.datasets.open_file(dataset)
    return OpenFileResponse(file, f"{record.name}.{record.kind}", {"ETag": record.etag})


@router.delete(
    "/{dataset}",
    status_code=204,
    summary="Delete a dataset",
    responses=problems(404, 409, 422),
    dependencies=IF_MATCH,
)
def delete_dataset(dataset: DatasetName, services: ServicesOf) -> None:
    """Delete a dataset; refused while an unfinished job reads it.

    A file that was added without copying it is not deleted.
    """
    services.datasets.delete(dataset)
