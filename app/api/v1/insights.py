"""Internals of modules: graphs, times of steps, figures of parameters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, ClassVar

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from app.api.bodies import read_object
from app.api.conditional import IF_MATCH
from app.api.dependencies import ModuleName, ServicesOf
from app.api.openapi import json_body, problems
from app.api.v1.insight_views import GraphView, ParamSummaryView, ProfileView
from app.domain.codec import STRICT_FIELDS
from app.domain.names import BucketKey
from app.domain.versions import LIVE
from app.link import calls
from app.link.packed_json import unpack_json
from app.tensors.codec import JSON

__all__ = ["ProfileBody", "router"]

router = APIRouter(prefix="/v1/modules/{module}", tags=["modules"])

_MOST_RUNS = 100
_MOST_BINS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileBody:
    """What to measure.

    Attributes:
        bucket: its key; by default the default bucket's.
        batch: number of examples per pass; by default as bound.
        runs: maximum number of passes.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    bucket: BucketKey | None = None
    batch: Annotated[int, Field(ge=1, le=1 << 16)] | None = None
    runs: Annotated[int, Field(ge=1, le=_MOST_RUNS)] = 10


@router.get(
    "/graph",
    summary="Describe a module's graph",
    response_model=GraphView,
    responses=problems(404, 422, 503),
)
async def get_graph(
    module: ModuleName,
    services: ServicesOf,
    bucket: Annotated[
        str | None, Query(description="Key of a bucket; by default the default bucket's.")
    ] = None,
) -> Response:
    """Return a bucket's graph with inferred shapes; parameters are listed at the nodes that read
    them.

    If no shapes are bound, only those that the symbol itself determines are given.
    """
    record = await services.access.record(module)
    call = calls.DescribeGraph(module=record.name, bucket=bucket)
    reply = await services.access.ask(record, call)
    reply.release()
    return Response(await asyncio.to_thread(unpack_json, reply.result), media_type=JSON)


@router.post(
    "/profile",
    summary="Measure what each step takes",
    openapi_extra=json_body(ProfileBody, {"runs": 10, "batch": 1}),
    responses=problems(400, 404, 409, 412, 413, 415, 422, 503, 507),
    dependencies=IF_MATCH,
)
async def profile_module(module: ModuleName, request: Request, services: ServicesOf) -> ProfileView:
    """Run predictions on inputs of ones, and return the time of each step on the device.

    Other predictions and fits continue between two passes, and the module does not change. No pass
    begins after five seconds. Fused operators have one time: `nodes` names them.
    """
    body = await read_object(request, ProfileBody)
    await services.access.check_expected(module)
    record = await services.access.record(module)
    call = calls.ProfileModule(
        module=record.name, bucket=body.bucket, batch=body.batch, runs=body.runs
    )
    reply = await services.access.ask_at(module, "predict", call)
    reply.release()
    return ProfileView(**reply.result)


@router.get(
    "/param_summary",
    summary="Figures of the parameters",
    response_model=ParamSummaryView,
    responses=problems(404, 409, 422, 503),
)
async def summarize_params(
    module: ModuleName,
    services: ServicesOf,
    checkpoint: Annotated[
        str, Query(description="`live` for the parameters in training, or a checkpoint's tag.")
    ] = LIVE,
    against: Annotated[
        str | None, Query(description="Tag of another checkpoint, to compare with.")
    ] = None,
    bins: Annotated[
        int, Query(ge=1, le=_MOST_BINS, description="Number of bins of the histograms.")
    ] = 32,
) -> Response:
    """Return norm, moments, extremes and histogram of each parameter, optionally beside another
    checkpoint's.

    If a training runs meanwhile, the figures of each parameter are consistent in themselves.
    Figures of checkpoints are cached.
    """
    found = await services.summaries.summarize(module, checkpoint, against, bins)
    # Joined as texts: both are JSON objects, and the figures may take megabytes.
    head = orjson.dumps({"checkpoint": checkpoint, "against": against})
    return Response(head[:-1] + b"," + found[1:], media_type=JSON)
