"""``HEAD`` for every ``GET`` that ends: the same answer, whose body the server leaves out."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute

__all__ = ["heads_of"]


def heads_of(router: APIRouter) -> APIRouter:
    """Return routes that answer ``HEAD`` as a router answers ``GET``, except to event streams."""
    heads = APIRouter()
    for route in router.routes:
        assert isinstance(route, APIRoute)
        if "GET" in (route.methods or ()) and route.response_class is not StreamingResponse:
            heads.add_api_route(
                route.path,
                route.endpoint,
                methods=["HEAD"],
                name=route.name,
                dependencies=route.dependencies,
                response_class=route.response_class,
                response_model=route.response_model,
                response_model_exclude_unset=route.response_model_exclude_unset,
                include_in_schema=False,
            )
    return heads
