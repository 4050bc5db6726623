"""The models folder: its models, and checking it on request."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.dependencies import ServicesOf
from app.api.openapi import problems
from app.api.v1.views import PageView
from app.services.modules.model_repository import ModelState

__all__ = ["router"]

router = APIRouter(prefix="/v1/models", tags=["models"])


class FolderModelView(BaseModel):
    """A model of the models folder."""

    name: str = Field(
        examples=["lenet"], description="Name of its folder, and of the module that serves it."
    )
    state: Literal["ready", "failed"] = Field(
        description="`ready`: it is served. `failed`: none of it could be loaded."
    )
    reason: str | None = Field(
        description="Why the current files are not served; null if they are."
    )
    checkpoint: str | None = Field(description="Tag of the served checkpoint.")
    epochs: list[int] = Field(description="Checkpoints found with it.")
    warnings: list[str] = Field(
        description="What differs from how the server that the archive was made for would run it."
    )


@router.get("", summary="List the models of the models folder", responses=problems(422))
async def list_models(services: ServicesOf) -> PageView[FolderModelView]:
    """Return the models that the server was told to serve (`modserve serve --models DIR`).

    Each is a module with the name of its folder, which answers predictions and cannot be changed.
    The list is empty if the server has no such folder.
    """
    return PageView(items=[_view(state) for state in services.models.states()])


@router.post("/reload", summary="Check the models folder now", responses=problems(409, 422))
async def reload_models(services: ServicesOf) -> PageView[FolderModelView]:
    """Apply additions, changes and removals in the models folder; answer when that is done.

    A model is replaced between two requests, once its new files are loaded. If files cannot be
    used, `reason` says why, and the model is served as before.
    """
    return PageView(items=[_view(state) for state in await services.models.reload()])


def _view(state: ModelState) -> FolderModelView:
    """Return the view of a model of the models folder."""
    tag = None if state.record is None else state.record.checkpoint
    archive = None if state.record is None else state.record.archive
    return FolderModelView(
        name=state.name,
        state="failed" if state.record is None else "ready",
        reason=state.error,
        checkpoint=None if tag is None else str(tag),
        epochs=list(state.epochs),
        warnings=list(archive.warnings) if archive else [],
    )
