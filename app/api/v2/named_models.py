"""Models as paths name them: every route of a model also exists for one of its versions."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute

from app.api.v2.openapi import ModelName, VersionName

__all__ = ["NamedModel", "of_versions"]

_VERSIONS = "/versions/{version}"


class _Named(NamedTuple):
    """What a path names.

    Attributes:
        model: name of the model.
        version: as written in the path; None for the one that answers by default.
    """

    model: str
    version: str | None


async def _named(request: Request, model: ModelName) -> _Named:
    # Not a parameter, because the same endpoint also serves the path without a version.
    return _Named(model, request.path_params.get("version"))


async def _version(version: VersionName) -> None:
    """Declare the parameter for the OpenAPI document; ``_named`` reads it."""


NamedModel = Annotated[_Named, Depends(_named)]


def of_versions(router: APIRouter) -> APIRouter:
    """Return a router's routes once more, for one version of a model."""
    found = APIRouter(prefix=f"{router.prefix}{_VERSIONS}", tags=router.tags)
    for route in router.routes:
        assert isinstance(route, APIRoute)
        found.add_api_route(
            route.path.removeprefix(router.prefix),
            route.endpoint,
            methods=sorted(route.methods or ()),
            name=route.name.replace("model", "version"),
            summary=f"{route.summary} (one version)",
            dependencies=[Depends(_version)],
            responses=route.responses,
            response_class=route.response_class,
            response_model=route.response_model,
            response_model_exclude_unset=route.response_model_exclude_unset,
            openapi_extra=route.openapi_extra,
        )
    return found
