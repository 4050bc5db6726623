"""The list of error codes, to which the ``type`` of every problem links."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from app.api.openapi import problems
from app.api.v1.views import ErrorCodeView, PageView
from app.errors.catalog import CATALOG, CatalogEntry
from app.errors.quoting import did_you_mean
from app.errors.tree import NotFound

__all__ = ["router"]

router = APIRouter(prefix="/v1/errors", tags=["errors"])

Code = Annotated[
    str, Path(pattern="^[a-z_]{1,64}$", description="The code.", examples=["not_found"])
]


@router.get("", summary="List error codes", responses=problems(422))
async def list_error_codes(request: Request) -> PageView[ErrorCodeView]:
    """Return all codes of answers and of failed jobs, with what to do about each."""
    return PageView(items=[_view(entry, request) for entry in CATALOG.values()])


@router.get("/{code}", summary="Describe an error code", responses=problems(404, 422))
async def get_error_code(code: Code, request: Request) -> ErrorCodeView:
    """Return one code; the `type` of a problem is this address."""
    if code not in CATALOG:
        hint = f"GET /v1/errors lists those that do{did_you_mean(code, CATALOG)}"
        raise NotFound("error code", code, hint)
    return _view(CATALOG[code], request)


def _view(entry: CatalogEntry, request: Request) -> ErrorCodeView:
    return ErrorCodeView(
        code=entry.code,
        status=entry.status,
        title=entry.title,
        remedy=entry.remedy,
        type=f"{request.scope.get('root_path', '')}/v1/errors/{entry.code}",
    )
