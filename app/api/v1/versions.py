"""Versions: listed, promoted, rolled back, labelled and served as canaries."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field

from app.api.bodies import read_object
from app.api.conditional import IF_MATCH
from app.api.dependencies import Cursor, Limit, ModuleName, ServicesOf, VersionName
from app.api.openapi import json_body, problems
from app.api.timestamps import Timestamp
from app.api.v1.requests import CanaryBody, LabelBody
from app.domain.checkpoint import CheckpointManifest
from app.domain.module import ModuleRecord
from app.domain.names import NAME_PATTERN
from app.domain.versions import LIVE
from app.services.modules.checkpoints import CheckpointFilter
from app.services.services import Services

__all__ = ["router"]

router = APIRouter(prefix="/v1/modules/{module}", tags=["versions"])

LabelName = Annotated[
    str,
    Path(
        pattern=f"^{NAME_PATTERN}$",
        description="Another name for a version; begins with a letter.",
        examples=["stable"],
    ),
]


class VersionView(BaseModel):
    """A version: a checkpoint between two epochs."""

    version: int = Field(description="The epoch.", examples=[3])
    promoted: bool = Field(description="Whether it answers predictions that name no version.")
    canary: bool = Field(description="Whether it answers a share of them, as the canary.")
    labels: list[str] = Field(description="Its labels.", examples=[["stable"]])
    replaced: bool = Field(
        description="Whether its checkpoint was written again while in use: the old "
        "one keeps answering, and the new one can be used once the old "
        "one is no longer in use."
    )
    metrics: dict[str, Any] = Field(description="Metrics of the training at that time.")
    size: int = Field(description="Total size of its files in bytes.")
    created_at: Timestamp


class CanaryView(BaseModel):
    """A canary."""

    version: int = Field(description="The epoch.", examples=[4])
    weight: float = Field(
        description="Share of the predictions that name no version, from 0 to 1.", examples=[0.1]
    )


class VersionsView(BaseModel):
    """The versions of a module, and which of them answer predictions."""

    promoted: str = Field(
        description="The version that answers predictions that name none: `live`, "
        "the parameters in training, or the number of an epoch.",
        examples=["3"],
    )
    earlier: list[str] = Field(
        description="Versions promoted before, the latest last.", examples=[["live", "2"]]
    )
    labels: dict[str, int] = Field(description="Versions by label.", examples=[{"stable": 3}])
    canary: CanaryView | None = Field(description="The canary; null for none.")
    damaged: list[int] = Field(
        description="Versions in use whose files are missing or damaged: "
        "predictions with them are answered 503 `version_damaged`."
    )
    items: list[VersionView] = Field(description="Versions, the latest epoch first.")
    next_cursor: str | None = Field(
        description="Send it as `cursor` for the next page; null on the last one."
    )


@router.get("/versions", summary="List versions", responses=problems(404, 422))
async def list_versions(
    module: ModuleName, services: ServicesOf, cursor: Cursor = None, limit: Limit = 50
) -> VersionsView:
    """Return which versions are promoted, labelled and a canary, and a page of all versions.

    A checkpoint between two epochs is a version; its number is the epoch.
    """
    record = await services.access.record(module)
    return await asyncio.to_thread(_view, services, record, cursor, limit)


@router.post(
    "/versions/{version}/promote",
    summary="Promote a version",
    responses=problems(404, 409, 422, 503),
    dependencies=IF_MATCH,
)
async def promote_version(
    module: ModuleName, version: VersionName, services: ServicesOf
) -> VersionsView:
    """Make a version answer predictions that name no version; `live` undoes the promotion.

    It is loaded and warmed up before it takes over, so no request waits or fails. From then on its
    answers do not change, whatever a fit does: its files are kept as they were when it was
    promoted.
    """
    return await _shown(services, await services.versions.promote(module, version))


@router.post(
    "/rollback",
    summary="Roll back to the version before",
    responses=problems(404, 409, 422, 503),
    dependencies=IF_MATCH,
)
async def roll_back_version(module: ModuleName, services: ServicesOf) -> VersionsView:
    """Promote the version that was promoted before; 409 `conflict` if there is none."""
    return await _shown(services, await services.versions.roll_back(module))


@router.put(
    "/version_labels/{label}",
    summary="Label a version",
    openapi_extra=json_body(LabelBody, {"version": 3}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def set_version_label(
    module: ModuleName, label: LabelName, request: Request, services: ServicesOf
) -> VersionsView:
    """Give a version another name; the label is moved if another version has it."""
    body = await read_object(request, LabelBody)
    return await _shown(services, await services.versions.label(module, label, body.version))


@router.delete(
    "/version_labels/{label}",
    status_code=204,
    summary="Remove a label",
    responses=problems(404, 409, 422),
    dependencies=IF_MATCH,
)
async def delete_version_label(module: ModuleName, label: LabelName, services: ServicesOf) -> None:
    """Remove a label; the version stays."""
    await services.versions.remove_label(module, label)


@router.put(
    "/canary",
    summary="Start a canary",
    openapi_extra=json_body(CanaryBody, {"version": 4, "weight": 0.1}),
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    dependencies=IF_MATCH,
)
async def set_canary(module: ModuleName, request: Request, services: ServicesOf) -> VersionsView:
    """Make a version answer a share of the predictions that name no version, beside the promoted
    one. It is loaded and warmed up before the first of them.
    """
    body = await read_object(request, CanaryBody)
    record = await services.versions.try_out(module, body.version, body.weight)
    return await _shown(services, record)


@router.delete(
    "/canary",
    status_code=204,
    summary="End the canary",
    responses=problems(404, 409, 422),
    dependencies=IF_MATCH,
)
async def delete_canary(module: ModuleName, services: ServicesOf) -> None:
    """Remove the canary, if there is one."""
    await services.versions.end_trial(module)


async def _shown(services: Services, record: ModuleRecord) -> VersionsView:
    return await asyncio.to_thread(_view, services, record, None, 50)


def _view(services: Services, record: ModuleRecord, cursor: str | None, limit: int) -> VersionsView:
    page = services.checkpoints.list_checkpoints(
        record.name, cursor, limit, CheckpointFilter(only_whole=True)
    )
    kept = services.versions.files.kept(record)
    spec = record.versions
    canary = None
    if spec.canary is not None:
        canary = CanaryView(version=spec.canary.version, weight=spec.canary.weight)
    return VersionsView(
        promoted=_name(spec.promoted),
        earlier=[_name(one) for one in spec.earlier],
        labels=spec.labels,
        canary=canary,
        damaged=sorted(spec.in_use() & {one for one, found in kept.items() if found is None}),
        items=[_item(record, one, kept.get(one.epoch)) for one in page.items],
        next_cursor=page.next_cursor,
    )


def _name(version: int | None) -> str:
    return LIVE if version is None else str(version)


def _item(
    record: ModuleRecord, found: CheckpointManifest, kept: CheckpointManifest | None
) -> VersionView:
    spec = record.versions
    shown = kept or found
    return VersionView(
        version=found.epoch,
        promoted=found.epoch == spec.promoted,
        canary=spec.canary is not None and found.epoch == spec.canary.version,
        labels=[name for name, one in spec.labels.items() if one == found.epoch],
        replaced=kept is not None and kept.etag != found.etag,
        metrics=dict(shown.metrics),
        size=shown.size,
        created_at=shown.created_at,
    )
